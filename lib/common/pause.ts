import { LONGEST_DELAY } from './alarm.js';
import { clearTimeout, setTimeout, unrefTimer } from './host.js';

/** Resolves after this many milliseconds, or when the signal aborts. Until then `keepsAlive` keeps the process alive. */
export function pause(milliseconds: number, signal?: AbortSignal, keepsAlive = true): Promise<void> {
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
    if (!keepsAlive) unrefTimer(timer);
    signal?.addEventListener('abort', end);
  });
}

/** Resolves once the promise has settled, or after this many milliseconds. The promise must not reject. */
export async function settledWithin(milliseconds: number, promise: Promise<unknown>): Promise<void> {
  const settled = new AbortController();
  await Promise.race([promise, pause(milliseconds, settled.signal)]);
  settled.abort();
}
