import { LONGEST_DELAY } from './alarm.js';
import { clearTimeout, setTimeout } from './host.js';

/** Resolves after so many milliseconds, or when the signal aborts. Until then it keeps the process alive. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(milliseconds, LONGEST_DELAY));
    signal?.addEventListener('abort', end);
  });
}

/** Resolves when the promise, which must not reject, has resolved, but no later than after these milliseconds. */
export async function settledWithin(milliseconds: number, promise: Promise<unknown>): Promise<void> {
  const settled = new AbortController();
  await Promise.race([promise, pause(milliseconds, settled.signal)]);
  settled.abort();
}
