import { awaitAbort, forgetAbort } from '../../common/abort.js';
import type { Lease } from '../hold/lease.js';

/** One attempt. Aborted while it is on its way, it rejects at once, and a grant that comes then is given back. */
export function askOnce(
  attempt: () => Promise<Lease | undefined>,
  signal: AbortSignal | undefined,
): Promise<Lease | undefined> {
  if (signal === undefined) return attempt();
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    let aborted = false;
    const waiting = {
      abort(reason: unknown): void {
        aborted = true;
        reject(reason);
      },
    };
    awaitAbort(signal, waiting);
    attempt().then(
      (lease) => {
        forgetAbort(signal, waiting);
        resolve(lease);
        if (aborted) lease?.release().catch(() => undefined);
      },
      (error: unknown) => {
        forgetAbort(signal, waiting);
        reject(error);
      },
    );
  });
}
