// Which keys a thread keeps pinned, by what the native engine answers.
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { KeyState, LockKey } from 'stripelock';
import {
  IDLE_ENDED,
  NO_STRIPE,
  PINNED_AGAIN,
  STRIPE_MASK,
  type ExactKeys,
} from '../../unbundled/engine/contract/exact-keys.js';
import type { LockTable, StripeCounts } from '../../unbundled/engine/contract/engine.js';
import { EXCLUSIVE_MODE } from '../../unbundled/engine/contract/mode.js';
import { FastPath } from '../../unbundled/engine/fast-path.js';
import { createGuard, tryTake, type Guard } from '../../unbundled/lock/guard.js';
import { openKeyed, type OpenedLock } from '../../unbundled/lock/handle.js';
import { KeyedIndex } from '../../unbundled/lock/keyed-index.js';
import { ONLY_KEY } from '../../unbundled/lock/stripe-index.js';
import { seedFor } from '../support/seed.js';
import { startThread } from '../support/threads.js';
import { thrownBy } from '../support/waiting.js';
import { below, randomFrom } from '../workers/random.mjs';

/** The exact keys of a native table, with a record of what they answered. It decides nothing. */
class Observed implements ExactKeys {
  pinned: object | undefined = undefined;
  /** The key of each stripe that this thread has pinned, according to the answers. */
  readonly keys = new Map<number, LockKey>();
  /** What acquisitions keep that are under way: none of these may be unpinned. */
  readonly kept = new Set<number>();
  /** Called after each answer, before the caller gets it. */
  onAnswer: (answer: number) => void = () => undefined;
  /** How many stripes it was asked to unpin. */
  checked = 0;
  readonly #exact: ExactKeys;
  readonly #capacity: number;

  constructor({ keys, stripes }: LockTable) {
    this.#exact = keys!;
    this.#capacity = stripes;
  }

  /** Fails unless this thread has the key pinned, and the stripe is the key's. */
  check(key: LockKey, stripe: number, when: string): void {
    if (this.#exact.pin(key, NO_STRIPE) !== (stripe | PINNED_AGAIN)) {
      // The answer also says if it is crowded.
      const answer = this.#exact.pin(key, NO_STRIPE);
      expect(answer & (STRIPE_MASK | PINNED_AGAIN), when).toBe(stripe | PINNED_AGAIN);
    }
  }

  pin(key: LockKey, idle: number): number {
    const answer = this.#exact.pin(key, idle);
    if ((answer & IDLE_ENDED) !== 0) this.keys.delete(idle);
    const stripe = answer & STRIPE_MASK;
    if (stripe !== NO_STRIPE) this.keys.set(stripe, key);
    this.onAnswer(answer);
    return answer;
  }

  unpin(stripes: Int32Array, count: number): number {
    this.checked += count;
    // However often those in use were looked up.
    if (count > 2 * this.#capacity) expect.fail(`${count} pins outside of the cache`);
    const all = stripes.slice(0, count);
    // All stripes, whether they are pinned or not, make room for a key that got none.
    if (count < this.#capacity && !all.every((stripe) => this.keys.has(stripe)))
      expect.fail('unpins what is not pinned');
    if (all.some((stripe) => this.kept.has(stripe))) expect.fail('unpins what an acquisition keeps');
    const left = this.#exact.unpin(stripes, count);
    const pinned = new Set(stripes.subarray(0, left));
    for (const stripe of all) if (!pinned.has(stripe)) this.keys.delete(stripe);
    return left;
  }

  inUse(): number {
    return this.#exact.inUse();
  }

  counts(key: LockKey): StripeCounts {
    return this.#exact.counts(key);
  }

  inspect(): KeyState[] {
    return this.#exact.inspect();
  }
}

function opened(capacity: number): { lock: OpenedLock; exact: Observed; index: KeyedIndex } {
  const lock = openKeyed({ engine: 'native', capacity });
  const exact = new Observed(lock.table);
  return { lock, exact, index: new KeyedIndex(exact, capacity, '') };
}

describe('the keys that a thread remembers', () => {
  for (const [capacity, keys] of [
    [64, 20],
    [64, 60],
    [64, 1000],
    [2048, 1000],
    [2048, 1900],
    [2048, 100_000],
    [8192, 6000],
  ] as const) {
    it(`are those that it has pinned: ${keys} keys in turn and again, room for ${capacity}`, () => {
      const random = randomFrom(seedFor(`remembered of ${keys} keys`));
      const { lock, exact, index } = opened(capacity);
      const path = new FastPath(lock.table);
      const held: Guard[] = [];
      let most = 0;
      for (let step = 0; step < 150_000; step++) {
        const key = random() < 0.5 ? step % keys : below(random, keys);
        if (random() < 0.1) {
          // An acquisition that runs code of the program, which looks up another key.
          const own = below(random, keys);
          const [outer] = index.stripesOf([own]);
          exact.kept.add(outer!);
          index.keep([outer!]);
          exact.check(key, index.stripeOf(key, ONLY_KEY), `step ${step}: key ${key}`);
          exact.check(own, outer!, `step ${step}: key ${own} is lost`);
          exact.kept.delete(outer!);
          index.end();
        }
        for (let again = below(random, 4); again >= 0; again--) {
          // A stripe that it returns without asking is still that key's.
          exact.check(key, index.stripeOf(key, ONLY_KEY), `step ${step}: key ${key}`);
        }
        if (random() < 0.1 && held.length < capacity / 8) {
          const guard = createGuard(path, key, index.stripeOf(key, ONLY_KEY), EXCLUSIVE_MODE);
          if (tryTake(guard)) held.push(guard);
        } else if (held.length > 0 && random() < 0.1) {
          held.shift()!.release();
        }
        most = Math.max(most, exact.keys.size);
      }
      // What is remembered until it is crowded, and a batch of what is not.
      expect(most).toBeLessThanOrEqual(Math.min(keys, (5 / 8) * capacity) + 80 + (5 / 4) * held.length);
      for (const guard of held) guard.release();
      // Room for another key is made of all that is not in use.
      for (let key = keys; (exact.pin(key, NO_STRIPE) & STRIPE_MASK) !== NO_STRIPE; key++);
      const others = Array.from({ length: capacity }, (_, i) => `another ${i}`);
      expect(new Set(index.stripesOf(others)).size).toBe(capacity);
      expect(new Set(exact.keys.values())).toEqual(new Set(others));
      const tooMany = Array.from({ length: capacity + 1 }, (_, i) => i);
      expect(thrownBy(() => index.stripesOf(tooMany))).toMatchObject({ code: 'ERR_LOCK_CAPACITY' });
      const all = Int32Array.from(exact.keys.keys());
      expect(exact.unpin(all, all.length)).toBe(0);
      const stripes = Array.from({ length: capacity }, (_, i) => exact.pin(`new ${i}`, NO_STRIPE));
      expect(new Set(stripes.map((answer) => answer & STRIPE_MASK)).size).toBe(capacity);
    });
  }

  it('are not all checked for each new key where nearly all of them are held', () => {
    const capacity = 4096;
    const { lock, exact, index } = opened(capacity);
    const path = new FastPath(lock.table);
    for (let key = 0; key < capacity - 3; key++) {
      const guard = createGuard(path, key, index.stripeOf(key, ONLY_KEY), EXCLUSIVE_MODE);
      expect(tryTake(guard)).toBe(true);
    }
    const cycle = (i: number): void => {
      const bytes = Buffer.from(`bytes ${i}`);
      exact.check(bytes, index.stripeOf(bytes, ONLY_KEY), `cycle ${i}`);
      const keys = [`one ${i}`, `two ${i}`, `three ${i}`];
      for (const [at, stripe] of index.stripesOf(keys).entries())
        exact.check(keys[at]!, stripe, `cycle ${i}`);
    };
    for (let i = 0; i < 10; i++) cycle(i);
    exact.checked = 0;
    for (let i = 10; i < 1010; i++) cycle(i);
    // Four keys a cycle, each of which makes room for others a few times.
    expect(exact.checked).toBeLessThan(1000 * 100);
  });

  it('do not include a key that it gave up for another one that then got no stripe', async () => {
    const { lock, exact, index } = opened(4);
    const gate = new Int32Array(new SharedArrayBuffer(8));
    // Too long to be remembered, so that it is given up for the next one.
    const shared = 'shared'.padEnd(300, '.');
    index.stripeOf(shared, ONLY_KEY);
    const keys = ['theirs', shared, 'third', 'last'];
    const other = startThread('pins.mjs', { handle: lock.handle, keys, gate: gate.buffer });
    const [[theirs]] = (await once(other, 'message')) as [number[]];
    const unpinNext = (): void => {
      const next = Atomics.add(gate, 0, 1) + 1;
      Atomics.notify(gate, 0);
      while (Atomics.load(gate, 1) < next) Atomics.wait(gate, 1, next - 1);
    };
    const answers: number[] = [];
    exact.onAnswer = (answer) => {
      answers.push(answer);
      // The other thread makes room between two calls of this one.
      if (answers.length === 1) unpinNext();
    };
    expect(index.stripeOf('first', ONLY_KEY)).toBe(theirs);
    expect(answers).toEqual([NO_STRIPE | IDLE_ENDED, expect.any(Number)]);
    expect([...exact.keys]).toEqual([[theirs, 'first']]);
    // Their pin of the shared key was the last one.
    unpinNext();
    for (const key of ['first', 'second', 'first']) {
      exact.check(key, index.stripeOf(key, ONLY_KEY), key);
      // Pins may end.
      index.stripesOf([]);
    }
  });
});
