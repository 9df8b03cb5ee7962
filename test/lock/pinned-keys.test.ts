// Which keys a thread keeps pinned, on names that are a Map.
import { describe, expect, it } from 'vitest';
import type { LockKey } from 'stripelock';
import {
  CROWDED,
  IDLE_ENDED,
  NO_STRIPE,
  PINNED_AGAIN,
  type ExactKeys,
} from '../../lib/engine/contract/exact-keys.js';
import { LockError } from '../../lib/common/errors.js';
import { EXCLUSIVE_MODE } from '../../lib/engine/contract/mode.js';
import { createGuard } from '../../lib/lock/guard.js';
import { PinnedKeys } from '../../lib/lock/pinned-keys.js';
import { seedFor } from '../support/seed.js';
import { thrownBy } from '../support/waiting.js';
import { below, randomFrom } from '../workers/random.mjs';

/** Names of one thread. A key gets any of the stripes that were freed last, as in the native engine. */
class Names implements ExactKeys {
  readonly stripes = new Map<LockKey, number>();
  readonly used = new Set<number>();
  /** How often it was asked. */
  pins = 0;
  /** What acquisitions keep that are under way: none of these may be unpinned. */
  readonly kept = new Set<number>();
  readonly #keys = new Map<number, LockKey>();
  readonly #free: number[];
  readonly #crowdedFrom: number;
  readonly #capacity: number;
  readonly #random: () => number;

  constructor(capacity: number, crowdedFrom: number, random: () => number) {
    this.#random = random;
    this.#free = Array.from({ length: capacity }, (_, i) => capacity - 1 - i);
    this.#crowdedFrom = crowdedFrom;
    this.#capacity = capacity;
  }

  pin(key: LockKey, idle: number): number {
    this.pins++;
    let ended = 0;
    if (idle !== NO_STRIPE && this.unpin(Int32Array.of(idle), 1) === 0) ended = IDLE_ENDED;
    const known = this.stripes.get(key);
    if (known !== undefined) return known | PINNED_AGAIN | ended;
    if (this.#free.length === 0) return NO_STRIPE;
    const last = Math.min(this.#free.length, 100);
    const [stripe] = this.#free.splice(this.#free.length - 1 - below(this.#random, last), 1) as [number];
    this.stripes.set(key, stripe);
    this.#keys.set(stripe, key);
    return stripe | (this.stripes.size > this.#crowdedFrom ? CROWDED : 0) | ended;
  }

  unpin(stripes: Int32Array, count: number): number {
    // However often those in use were looked up.
    if (count > 2 * this.#capacity) expect.fail(`${count} pins outside of the cache`);
    let kept = 0;
    for (const stripe of new Set(stripes.slice(0, count))) {
      const key = this.#keys.get(stripe);
      if (key === undefined) continue;
      if (this.kept.has(stripe)) expect.fail('unpins what an acquisition keeps');
      if (this.used.has(stripe)) {
        stripes[kept++] = stripe;
        continue;
      }
      this.#keys.delete(stripe);
      this.stripes.delete(key);
      this.#free.push(stripe);
    }
    return kept;
  }

  inUse(): number {
    return this.used.size;
  }

  counts(): { word: number; waiting: number } {
    return { word: 0, waiting: 0 };
  }

  inspect(): [] {
    return [];
  }
}

describe('the keys that a thread remembers', () => {
  for (const [capacity, keys, crowdedFrom] of [
    [64, 20, 64],
    [64, 60, 32],
    [64, 1000, 32],
    [2048, 1000, 2048],
    [2048, 1900, 1024],
    [2048, 100_000, 1024],
    [8192, 6000, 8192],
  ] as const) {
    it(`are those that it has pinned: ${keys} keys in turn and again, room for ${capacity}`, () => {
      const random = randomFrom(seedFor(`remembered of ${keys} keys`));
      const names = new Names(capacity, crowdedFrom, random);
      const index = new PinnedKeys(names, capacity, '', () => undefined);
      const held: LockKey[] = [];
      for (let step = 0; step < 300_000; step++) {
        const key = random() < 0.5 ? step % keys : below(random, keys);
        if (random() < 0.1) {
          // An acquisition that runs code of the program, which looks up another key.
          index.begin();
          const own = below(random, keys);
          const outer = index.stripeOf(own, 'keys[]');
          const { unpins } = index;
          const keeps = random() < 0.5;
          if (keeps) {
            names.kept.add(outer);
            index.keep(createGuard({} as never, own, outer, EXCLUSIVE_MODE));
          }
          const inner = index.stripeOf(key, 'key');
          if (inner !== names.stripes.get(key)) expect.fail(`step ${step}: ${inner} is not of key ${key}`);
          const stays = outer === names.stripes.get(own);
          if (!stays && (keeps || unpins === index.unpins)) expect.fail(`step ${step}: key ${own} is lost`);
          names.kept.delete(outer);
          index.end();
        }
        for (let again = below(random, 4); again >= 0; again--) {
          const stripe = index.stripeOf(key, 'key');
          // What it returns without asking is still that key's.
          if (stripe !== names.stripes.get(key)) expect.fail(`step ${step}: ${stripe} is not of key ${key}`);
        }
        if (random() < 0.1 && held.length < capacity / 8) {
          names.used.add(names.stripes.get(key)!);
          held.push(key);
        } else if (held.length > 0 && random() < 0.1) {
          names.used.delete(names.stripes.get(held.shift()!)!);
        }
      }
      // What is remembered, and a batch of what is not.
      expect(names.stripes.size).toBeLessThanOrEqual(crowdedFrom + 80 + (5 / 4) * held.length);
      for (const key of held) names.used.delete(names.stripes.get(key)!);
      // Room for another key is made of all that is not in use.
      index.begin();
      for (let key = keys; names.stripes.size < capacity; key++) names.pin(key, NO_STRIPE);
      const error = thrownBy(() => index.stripeOf('another', 'keys[]'));
      expect(error).toMatchObject({ code: 'ERR_LOCK_CAPACITY' });
      expect(index.makeRoom(new LockError('ERR_LOCK_CAPACITY', ''))).toBe(false);
      expect(index.makeRoom(error)).toBe(true);
      index.end();
      expect(names.stripes.size).toBe(0);
    });
  }
});
