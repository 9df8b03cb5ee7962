import { SCANNED, scannedIn, type RedisConnection, type Scan } from './connection.js';
import type { Script } from './scripts.js';

/** The REST client of `@upstash/redis`. */
export interface Upstash {
  evalsha(sha: string, keys: string[], args: string[]): Promise<unknown>;
  eval(source: string, keys: string[], args: string[]): Promise<unknown>;
  scan?(cursor: string, options: { match: string; count: number }): Promise<unknown>;
}

/**
 * A client of Upstash, which sends commands over HTTP. The server cannot send notifications to such a client,
 * so waiters poll.
 *
 * By default the client parses replies as JSON. But the client leaves a number as text if the parsed number
 * would be printed differently. So tokens stay exact.
 */
export class UpstashConnection implements RedisConnection {
  readonly isCluster = false;
  readonly #client: Upstash;

  constructor(client: Upstash) {
    this.#client = client;
  }

  async run(
    { sha, source }: Script,
    keys: readonly string[],
    args: readonly string[],
    bySource: boolean,
  ): Promise<unknown> {
    const client = this.#client;
    try {
      return await (bySource
        ? client.eval(source, [...keys], [...args])
        : client.evalsha(sha, [...keys], [...args]));
    } catch (error) {
      throw asReplied(error);
    }
  }

  scans(): Promise<readonly Scan[] | undefined> {
    const client = this.#client;
    if (typeof client.scan !== 'function') return Promise.resolve(undefined);
    const scan: Scan = async (cursor, match) => {
      try {
        return scannedIn(await client.scan!(cursor, { match, count: SCANNED }));
      } catch (error) {
        throw asReplied(error);
      }
    };
    return Promise.resolve([scan]);
  }
}

/**
 * Returns the error with the server's own wording, without the prefix and the command that the client adds.
 */
function asReplied(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const reply = error.message.replace(/^Command failed: /, '').replace(/, command was: .*$/s, '');
  return reply === error.message ? error : new Error(reply, { cause: error });
}
