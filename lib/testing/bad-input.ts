import { codeOf, type Scene, type Sentence } from './framework.js';

const TTL = 1000;
const TYPE = 'ERR_INVALID_ARG_TYPE';
const RANGE = 'ERR_OUT_OF_RANGE';

type Wrong = readonly [value: unknown, code: string];

const NO_TEXTS: readonly Wrong[] = [
  ['', RANGE],
  [undefined, TYPE],
  [null, TYPE],
  [5, TYPE],
  [{}, TYPE],
  [['key'], TYPE],
];
const NO_TTLS: readonly Wrong[] = [
  [0, RANGE],
  [-1, RANGE],
  [1.5, RANGE],
  [NaN, RANGE],
  [Infinity, RANGE],
  [-Infinity, RANGE],
  // Too large: the sum of this TTL and the current time is not exact in milliseconds.
  [Number.MAX_SAFE_INTEGER, RANGE],
  [Number.MAX_VALUE, RANGE],
  [undefined, TYPE],
  [null, TYPE],
  ['1000', TYPE],
  [1000n, TYPE],
];

async function expectRefused(
  on: Scene,
  wrong: readonly Wrong[],
  operation: (value: never) => Promise<unknown>,
): Promise<void> {
  for (const [value, code] of wrong) on.expect(await codeOf(() => operation(value as never))).toBe(code);
}

export const badInput: readonly Sentence[] = [
  [
    'as a key is refused',
    async (on) => {
      await expectRefused(on, NO_TEXTS, (key) => on.store.tryAcquire(key, 'a', TTL));
      await expectRefused(on, NO_TEXTS, (key) => on.store.renew(key, 'a', TTL));
      await expectRefused(on, NO_TEXTS, (key) => on.store.release(key, 'a'));
      await expectRefused(on, NO_TEXTS, (key) => on.store.inspect(key));
    },
  ],
  [
    'as an owner is refused, and leaves the key free',
    async (on) => {
      await expectRefused(on, NO_TEXTS, (owner) => on.store.tryAcquire('key', owner, TTL));
      await expectRefused(on, NO_TEXTS, (owner) => on.store.renew('key', owner, TTL));
      await expectRefused(on, NO_TEXTS, (owner) => on.store.release('key', owner));
      on.expect(await on.store.inspect('key')).toBe(undefined);
    },
  ],
  [
    'as a TTL is refused, and leaves the key free',
    async (on) => {
      await expectRefused(on, NO_TTLS, (ttl) => on.store.tryAcquire('key', 'a', ttl));
      on.expect(await on.store.inspect('key')).toBe(undefined);
    },
  ],
  [
    'as a TTL of a renewal is refused, and leaves the lease as it is',
    async (on) => {
      const token = await on.store.tryAcquire('key', 'a', 600_000);
      await expectRefused(on, NO_TTLS, (ttl) => on.store.renew('key', 'a', ttl));
      const state = await on.store.inspect('key');
      on.expect([state?.owner, state?.token]).toEqual(['a', token]);
      on.expect((state?.remaining ?? 0) > 300_000).toBe(true);
    },
  ],
];
