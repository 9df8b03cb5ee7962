import { pbkdf2 } from 'node:crypto';
import { lookup } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { Suite } from '../support/engine.js';
import { watch } from '../support/waiting.js';

/**
 * Milliseconds in which each of these answers if it has a thread to run on; usually it takes a few. If pending
 * acquisitions used libuv's four threads, it would take until these acquisitions time out.
 */
const PROMPT = 3000;

export const responsivenessSuite: Suite = (makeLock) => {
  describe('ten thousand pending acquisitions', () => {
    it('do not delay fs, dns and crypto, and are all granted in order', async () => {
      const lock = makeLock({ stripes: 64 });
      const count = 10_000;
      const keys = Array.from({ length: 64 }, (_, i) => i);
      const guard = lock.acquireSync(keys);
      const held = guard.stripes.length;
      const order = new Map<number, number[]>();
      const waiters = Array.from({ length: count }, (_, i) => {
        const key = i % 64;
        return lock.acquire(key, { timeout: 60_000 }).then((own) => {
          const stripe = own.stripes[0]!;
          const seen = order.get(stripe) ?? [];
          order.set(stripe, seen);
          seen.push(i);
          own.release();
        });
      });
      expect(lock.stats()).toMatchObject({ held, waiting: count, contended: count });

      const answers = {
        fs: watch(readFile(fileURLToPath(import.meta.url))),
        dns: watch(lookup('localhost')),
        crypto: watch(promisify(pbkdf2)('password', 'salt', 1000, 32, 'sha256')),
      };
      await Promise.all(Object.values(answers).map(({ promise }) => promise as Promise<unknown>));
      for (const [name, { after }] of Object.entries(answers)) expect(after, name).toBeLessThan(PROMPT);
      expect(lock.stats().waiting).toBe(count);

      guard.release();
      await Promise.all(waiters);
      expect([...order.values()].flat()).toHaveLength(count);
      for (const seen of order.values()) expect(seen).toEqual(seen.toSorted((a, b) => a - b));
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
    });

    it('can all be aborted, or all time out, at once', async () => {
      const lock = makeLock({ stripes: 4 });
      const guard = lock.acquireSync([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
      const abort = new AbortController();
      const pending = (options: object): Promise<PromiseSettledResult<unknown>[]> =>
        Promise.allSettled(Array.from({ length: 10_000 }, (_, i) => lock.acquire(i % 10, options)));
      const aborted = pending({ signal: abort.signal, timeout: Infinity });
      abort.abort();
      expect((await aborted).every(({ status }) => status === 'rejected')).toBe(true);
      expect((await pending({ timeout: 10 })).every(({ status }) => status === 'rejected')).toBe(true);
      expect(lock.stats()).toMatchObject({ waiting: 0, aborts: 10_000, timeouts: 10_000 });
      guard.release();
      expect(lock.stats().held).toBe(0);
    });
  });
};
