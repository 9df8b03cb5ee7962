import { describe, expect, it } from 'vitest';
import { listen } from '../support/channels.js';
import type { Suite } from '../support/engine.js';
import { EVERY_TRAP, throwing } from '../support/refusals.js';
import { resized, withoutMemory } from '../support/bytes.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';

export const oddBytesSuite: Suite = (makeLock) => {
  describe('odd bytes', () => {
    it('are compared by their content, whatever their methods and properties say', () => {
      const lock = makeLock({ stripes: 65_537 });
      class Odd extends Uint8Array {
        override get length(): number {
          return 1;
        }
        override [Symbol.iterator](): ReturnType<Uint8Array['values']> {
          return throwing();
        }
        override subarray(): Uint8Array<ArrayBuffer> {
          return throwing();
        }
      }
      const bytes = Uint8Array.of(1, 2, 3);
      const odd = new Odd(bytes);
      const own = Object.defineProperty(Uint8Array.from(bytes), 'length', { value: 1e9 });
      const bare = Object.setPrototypeOf(Uint8Array.from(bytes), new Proxy({}, EVERY_TRAP)) as Uint8Array;
      for (const key of [odd, own, bare]) {
        expect(lock.stripeOf(key)).toBe(lock.stripeOf(bytes));
        const guard = lock.acquireSync(key);
        const error = thrownBy(() => lock.acquireSync(key, { timeout: 0 }));
        expect(error).toMatchObject({ message: expect.stringContaining('<010203>') as string });
        guard.release();
      }
    });

    it('are refused, and not taken for the empty key, if their memory was detached or shrank', async () => {
      const lock = makeLock({ stripes: 65_537 });
      const refusal = expect.objectContaining({
        name: 'TypeError',
        code: 'ERR_INVALID_ARG_TYPE',
        message: expect.stringMatching(/^key(s\[\d\])? must be bytes .* detached or shrank$/) as string,
      }) as Error;
      for (const gone of [...withoutMemory()]) {
        for (const keys of [gone, ['a', gone], [gone]]) {
          expect(thrownBy(() => lock.acquireSync(keys))).toEqual(refusal);
          expect(thrownBy(() => lock.tryAcquire(keys))).toEqual(refusal);
          expect(thrownBy(() => lock.withLockSync(keys, throwing))).toEqual(refusal);
          expect(await rejectionOf(lock.acquire(keys))).toEqual(refusal);
          expect(await rejectionOf(lock.acquire(keys, { mode: 'shared', timeout: 5 }))).toEqual(refusal);
        }
        expect(thrownBy(() => lock.stripeOf(gone))).toEqual(refusal);
        expect(thrownBy(() => lock.stateOf(gone))).toEqual(refusal);
      }
      // Reading the list takes the memory away.
      const bytes = Uint8Array.of(1, 2);
      const list = Object.defineProperty([bytes, 'b'], 0, {
        get: () => {
          if (bytes.length > 0) structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
          return bytes;
        },
      });
      expect(thrownBy(() => lock.acquireSync(list))).toEqual(refusal);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
      // These are empty.
      const atEnd = new Uint8Array(resized(2), 2);
      for (const empty of [new Uint8Array(), Uint8Array.of(1).subarray(1), atEnd]) {
        const guard = lock.acquireSync(empty);
        expect(lock.tryAcquire(new Uint8Array())).toBeUndefined();
        guard.release();
      }
    });

    it('are shown in messages and errors as they were when the acquisition began to wait', async () => {
      const lock = makeLock({ name: 'odd bytes' });
      const bytes = (): Uint8Array<ArrayBuffer> => Uint8Array.of(1, 2, 255);
      const guard = lock.acquireSync([bytes(), 'other']);
      const heard = listen('wait', 'timeout');
      const gone = bytes();
      const written = bytes();
      const alsoGone = bytes();
      const waiting = [
        lock.acquire(gone, { timeout: 20 }),
        lock.acquire(written, { timeout: 20 }),
        lock.acquire([alsoGone, 'other'], { timeout: 30 }),
        lock.acquire('other', { timeout: 40 }),
      ];
      structuredClone(gone.buffer, { transfer: [gone.buffer] });
      structuredClone(alsoGone.buffer, { transfer: [alsoGone.buffer] });
      written.fill(9);
      const errors = await Promise.all(waiting.map(rejectionOf));
      const expected = [[bytes()], [bytes()], [bytes(), 'other'], ['other']];
      for (const [i, keys] of expected.entries()) {
        expect(errors[i]).toMatchObject({ name: 'LockTimeoutError', keys });
        expect((errors[i] as Error).message).toContain(i < 3 ? '<0102ff>' : '"other"');
      }
      // Each publishes its wait and its timeout. If the event loop is late, several end in one turn, in any order.
      const published = heard
        .filter(([, message]) => message['lock'] === 'odd bytes')
        .map(([, { keys }]) => keys);
      const twice = expected.flatMap((keys) => [keys, keys]);
      expect(published).toHaveLength(twice.length);
      expect(published).toEqual(expect.arrayContaining(twice));
      expect(lock.stats()).toMatchObject({ held: 2, waiting: 0, timeouts: 4 });
      guard.release();
    });

    it('stay the keys of their guard, which can be released after they are detached', async () => {
      const lock = makeLock();
      const bytes = Uint8Array.of(1, 2, 255);
      const first = lock.acquireSync(bytes);
      const waiting = lock.acquire(bytes);
      first.release();
      const guard = await waiting;
      expect(guard.keys[0]).toBe(bytes);
      structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
      expect(lock.stats().held).toBe(1);
      guard.release();
      expect(lock.stats().held).toBe(0);
    });
  });
};
