import { createContext, runInContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { StripedLock, type AcquireOptions, type LockKey } from 'stripelock';
import type { Suite } from '../support/engine.js';
import { rejectionOf } from '../support/waiting.js';

export const otherRealmsSuite: Suite = (makeLock, engine) => {
  describe('a value of another realm', () => {
    const realm = createContext({ Buffer, AbortController, EventTarget });
    const made = (code: string): unknown => runInContext(code, realm);

    it('may be bytes: the same key as equal bytes of this realm', async () => {
      const lock = makeLock({ stripes: 65_537, trace: true });
      const theirs = made('Uint8Array.of(1, 2, 255)') as Uint8Array;
      expect(theirs instanceof Uint8Array).toBe(false);
      expect(lock.stripeOf(theirs)).toBe(lock.stripeOf(Uint8Array.of(1, 2, 255)));
      for (const keys of [theirs, [theirs, 'b'], made('[Uint8Array.of(1, 2, 255), "b"]') as LockKey[]]) {
        const guard = await lock.acquire(keys);
        expect(lock.tryAcquire(Buffer.of(1, 2, 255))).toBeUndefined();
        const held = lock.inspect().find(({ stripe }) => stripe === lock.stripeOf(theirs))!;
        expect(held.holders[0]!.keys![0]).toEqual(Uint8Array.of(1, 2, 255));
        await expect(lock.acquire(theirs, { timeout: 0 })).rejects.toThrow('<0102ff>');
        guard.release();
      }
    });

    it('may be a list, options, a signal and a function', async () => {
      const lock = makeLock();
      const list = made('["a", "b"]') as string[];
      const guard = lock.acquireSync(
        list,
        made('({ timeout: 5, mode: "shared" })') as AcquireOptions<'shared'>,
      );
      expect(guard).toMatchObject({ keys: ['a', 'b'], mode: 'shared' });
      const controller = made('new AbortController()') as AbortController;
      const waiting = lock.acquire('a', { signal: controller.signal });
      controller.abort(made('"reason"'));
      expect(await rejectionOf(waiting)).toBe('reason');
      guard.release();
      expect(await lock.withLock(list, made('() => 2') as () => number)).toBe(2);
      const copied = made('(handle) => ({ ...handle })') as (handle: object) => typeof lock.handle;
      expect(StripedLock.from(copied(lock.handle)).engine).toBe(engine.name);
    });

    it('may be a signal of another implementation', async () => {
      const lock = makeLock();
      class OtherSignal {
        aborted = false;
        reason: unknown = undefined;
        readonly #target = new EventTarget();
        addEventListener(...args: Parameters<EventTarget['addEventListener']>): void {
          this.#target.addEventListener(...args);
        }
        removeEventListener(...args: Parameters<EventTarget['removeEventListener']>): void {
          this.#target.removeEventListener(...args);
        }
        abort(reason: unknown): void {
          this.aborted = true;
          this.reason = reason;
          this.#target.dispatchEvent(new Event('abort'));
        }
      }
      const signal = new OtherSignal();
      const guard = lock.acquireSync('key');
      const waiting = lock.acquire('key', { signal: signal as unknown as AbortSignal });
      signal.abort('reason');
      expect(await rejectionOf(waiting)).toBe('reason');
      expect(lock.stats()).toMatchObject({ waiting: 0, aborts: 1 });
      guard.release();
    });
  });
};
