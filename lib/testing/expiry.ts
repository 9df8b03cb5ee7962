import type { Sentence } from './framework.js';

export const expiry: readonly Sentence[] = [
  [
    'it lasts for its TTL, and not for longer',
    async (on) => {
      const asked = on.now();
      await on.store.tryAcquire('key', 'a', on.ttl);
      const early = await on.store.tryAcquire('key', 'b', on.ttl);
      on.requireWithin(on.ttl, asked);
      on.expect(early).toBe(undefined);
      await on.expire();
      on.expect(await on.store.inspect('key')).toBe(undefined);
      on.expect(typeof (await on.store.tryAcquire('key', 'b', on.ttl))).toBe('bigint');
    },
  ],
  [
    'the stale owner cannot renew what has expired, even while nobody else has it',
    async (on) => {
      await on.store.tryAcquire('key', 'a', on.ttl);
      await on.expire();
      on.expect(await on.store.renew('key', 'a', on.ttl)).toBe(false);
      on.expect(await on.store.inspect('key')).toBe(undefined);
    },
  ],
  [
    'the stale owner cannot release it, which leaves the new holder alone',
    async (on) => {
      await on.store.tryAcquire('key', 'a', on.ttl);
      await on.expire();
      on.expect(await on.store.release('key', 'a')).toBe(false);
      const token = await on.store.tryAcquire('key', 'b', 100 * on.ttl);
      on.expect(await on.store.release('key', 'a')).toBe(false);
      on.expect(await on.store.renew('key', 'a', on.ttl)).toBe(false);
      const state = await on.store.inspect('key');
      on.expect([state?.owner, state?.token]).toEqual(['b', token]);
    },
  ],
  [
    'renewal extends it from the time of the renewal on, again and again',
    async (on) => {
      let asked = on.now();
      await on.store.tryAcquire('key', 'a', on.ttl);
      for (let i = 0; i < 4; i++) {
        await on.pass(Math.floor(on.ttl / 2));
        const askedAgain = on.now();
        const renewed = await on.store.renew('key', 'a', on.ttl);
        on.requireWithin(on.ttl, asked);
        on.expect(renewed).toBe(true);
        asked = askedAgain;
      }
      const early = await on.store.tryAcquire('key', 'b', on.ttl);
      on.requireWithin(on.ttl, asked);
      on.expect(early).toBe(undefined);
      await on.expire();
      on.expect(typeof (await on.store.tryAcquire('key', 'b', on.ttl))).toBe('bigint');
    },
  ],
  [
    'its owner who takes it again has it for the new TTL',
    async (on) => {
      await on.store.tryAcquire('key', 'a', on.ttl);
      await on.store.tryAcquire('key', 'a', 100 * on.ttl);
      await on.expire();
      on.expect(await on.store.tryAcquire('key', 'b', on.ttl)).toBe(undefined);
    },
  ],
  [
    'keys expire each by its own time',
    async (on) => {
      await on.store.tryAcquire('short', 'a', on.ttl);
      await on.store.tryAcquire('long', 'a', 100 * on.ttl);
      await on.expire();
      on.expect(await on.store.inspect('short')).toBe(undefined);
      on.expect((await on.store.inspect('long'))?.owner).toBe('a');
    },
  ],
];
