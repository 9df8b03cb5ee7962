import type { Sentence } from './framework.js';

/** A TTL that does not expire in these tests, in milliseconds. */
const LONG = 600_000;

export const holding: readonly Sentence[] = [
  [
    'the first to ask has it, and contention is a result, not an error',
    async (on) => {
      on.expect(typeof (await on.store.tryAcquire('key', 'a', LONG))).toBe('bigint');
      on.expect(await on.store.tryAcquire('key', 'b', LONG)).toBe(undefined);
    },
  ],
  [
    'of many who ask at once exactly one has it',
    async (on) => {
      const owners = Array.from({ length: 20 }, (_, i) => `owner ${i}`);
      const tokens = await Promise.all(owners.map((owner) => on.store.tryAcquire('key', owner, LONG)));
      const granted = owners.filter((_, i) => tokens[i] !== undefined);
      on.expect(granted.length).toBe(1);
      on.expect((await on.store.inspect('key'))?.owner).toBe(granted[0]);
    },
  ],
  [
    'different keys never collide, however alike they are',
    async (on) => {
      const keys = [
        'a',
        'A',
        'a ',
        ' a',
        'a:b',
        'a:',
        '0',
        '00',
        'ä',
        'a\u0308',
        'key\0',
        'key',
        '€',
        '😀',
        'x'.repeat(2000),
      ];
      for (const key of keys) {
        on.expect(typeof (await on.store.tryAcquire(key, `owner of ${key}`, LONG))).toBe('bigint');
      }
      for (const key of keys) on.expect((await on.store.inspect(key))?.owner).toBe(`owner of ${key}`);
      for (const key of keys) on.expect(await on.store.release(key, `owner of ${key}`)).toBe(true);
    },
  ],
  [
    'its owner may take it again, also after it was forgotten',
    async (on) => {
      on.expect(typeof (await on.store.tryAcquire('key', 'a', LONG))).toBe('bigint');
      on.expect(typeof (await on.store.tryAcquire('key', 'a', LONG))).toBe('bigint');
      on.expect(await on.store.tryAcquire('key', 'b', LONG)).toBe(undefined);
    },
  ],
  [
    'release frees it for others, and only once',
    async (on) => {
      await on.store.tryAcquire('key', 'a', LONG);
      on.expect(await on.store.release('key', 'a')).toBe(true);
      on.expect(await on.store.release('key', 'a')).toBe(false);
      on.expect(await on.store.inspect('key')).toBe(undefined);
      on.expect(typeof (await on.store.tryAcquire('key', 'b', LONG))).toBe('bigint');
    },
  ],
  [
    'release and renewal by anybody but its owner change nothing',
    async (on) => {
      const token = await on.store.tryAcquire('key', 'a', LONG);
      for (const stranger of ['b', 'A', 'a ', 'aa']) {
        on.expect(await on.store.release('key', stranger)).toBe(false);
        on.expect(await on.store.renew('key', stranger, 1)).toBe(false);
      }
      const state = await on.store.inspect('key');
      on.expect(state?.owner).toBe('a');
      on.expect(state?.token).toBe(token);
      on.expect((state?.remaining ?? 0) > LONG / 2).toBe(true);
    },
  ],
  [
    'what nobody has cannot be released, renewed or inspected',
    async (on) => {
      on.expect(await on.store.release('key', 'a')).toBe(false);
      on.expect(await on.store.renew('key', 'a', LONG)).toBe(false);
      on.expect(await on.store.inspect('key')).toBe(undefined);
      on.expect(typeof (await on.store.tryAcquire('key', 'b', LONG))).toBe('bigint');
    },
  ],
  [
    'inspect tells owner, token and the time that remains',
    async (on) => {
      const token = await on.store.tryAcquire('key', 'a', LONG);
      const state = await on.store.inspect('key');
      on.expect(state?.owner).toBe('a');
      on.expect(state?.token).toBe(token);
      on.expect((state?.remaining ?? 0) > LONG - 60_000).toBe(true);
      on.expect((state?.remaining ?? 0) <= LONG + on.late).toBe(true);
    },
  ],
];
