import { beforeEach, describe, expect, it } from 'vitest';
import type { LockMode, StripedLock } from 'stripelock';
import { Agent } from '../support/agent.js';
import type { Suite } from '../support/engine.js';
import { keysApart, keysTogether } from '../support/keys.js';
import { rejectionOf, thrownBy, until } from '../support/waiting.js';

/** More than it takes to find out that pairs do not come again. */
const MANY_PAIRS = 3000;

/** The same promises as for other sets of keys: two keys that are acquired together once take a separate code path. */
export const newPairsSuite: Suite = (makeLock) => {
  describe('two keys in ever new combinations', () => {
    let lock: StripedLock;
    let pair: [string, string];
    const withNewPairs = (options?: { stripes?: number }): void => {
      lock = makeLock(options);
      for (let i = 0; i < MANY_PAIRS; i++) lock.acquireSync([i, -i - 1]).release();
      pair = keysApart(lock, 2) as [string, string];
    };
    beforeEach(() => withNewPairs());

    for (const mode of ['exclusive', 'shared'] as const satisfies LockMode[]) {
      it(`are held and given back together, in either order (${mode})`, async () => {
        const [low, high] = pair;
        const stripes = pair.map((key) => lock.stripeOf(key));
        for (const keys of [pair, [high, low]]) {
          for (const acquire of [
            () => lock.acquireSync(keys, { mode }),
            () => lock.tryAcquire(keys, { mode })!,
            () => lock.acquire(keys, { mode }),
          ]) {
            const guard = await acquire();
            expect(guard).toMatchObject({ keys, stripes, mode, held: true, abandoned: false });
            expect(lock.stats().held).toBe(2);
            expect([low, high].map((key) => lock.tryAcquire(key))).toEqual([undefined, undefined]);
            guard.release();
            expect(guard.held).toBe(false);
            guard.release();
            expect(lock.stats().held).toBe(0);
          }
        }
      });

      it(`take the stripe that they have in common once (${mode})`, () => {
        withNewPairs({ stripes: 7 });
        for (const keys of [['same', 'same'], keysTogether(lock, 2)]) {
          const guard = lock.acquireSync(keys, { mode });
          expect(guard).toMatchObject({ keys, stripes: [lock.stripeOf(keys[0]!)] });
          expect(lock.stats().held).toBe(1);
          guard.release();
          expect(lock.stats().held).toBe(0);
        }
      });

      for (const held of [0, 1] as const) {
        it(`leave nothing behind if key ${held} is not free (${mode})`, async () => {
          const holder = lock.acquireSync(pair[held]);
          expect(lock.tryAcquire(pair, { mode })).toBeUndefined();
          expect(lock.stats().held).toBe(1);
          expect(await rejectionOf(lock.acquire(pair, { mode, timeout: 5 }))).toMatchObject({
            code: 'ERR_LOCK_TIMEOUT',
          });
          expect(lock.stats().held).toBe(1);
          expect(lock.tryAcquire(pair[1 - held]!)?.release()).toBe(undefined);
          expect(thrownBy(() => lock.acquireSync(pair, { mode }))).toMatchObject({
            code: 'ERR_LOCK_DEADLOCK',
          });
          holder.release();
          expect(lock.stats().held).toBe(0);
        });

        it(`are granted when key ${held} becomes free (${mode})`, async () => {
          const holder = lock.acquireSync(pair[held]);
          const waiting = lock.acquire(pair, { mode });
          await until(() => lock.stats().waiting === 1, 'it waits');
          holder.release();
          const guard = await waiting;
          expect(guard).toMatchObject({ keys: pair, held: true, mode });
          expect(lock.stats().held).toBe(2);
          guard.release();
          expect(lock.stats().held).toBe(0);
        });
      }
    }

    it('hand both keys over to another thread that waits for them', async () => {
      const agent = await Agent.start(lock);
      for (let round = 0; round < 5; round++) {
        const guard = lock.acquireSync(pair);
        const waiting = agent.acquireSync(pair);
        await until(() => lock.stats().waiting === 1, 'the other thread waits');
        guard.release();
        const theirs = await waiting;
        expect(lock.tryAcquire(pair)).toBeUndefined();
        await theirs.release();
        expect(lock.stats().held).toBe(0);
      }
    });
  });
};
