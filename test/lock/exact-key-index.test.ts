// Which keys a thread keeps pinned, on names that are a Map.
import { describe, expect, it } from 'vitest';
import type { LockKey } from 'stripelock';
import {
  CROWDED,
  NO_STRIPE,
  PINNED_AGAIN,
  RECURRING,
  REUSED,
  STRIPE_MASK,
  type ExactKeys,
} from '../../lib/engine/contract/exact-keys.js';
import { ExactKeyIndex } from '../../lib/lock/exact-key-index.js';
import { seedFor } from '../support/seed.js';
import { below, randomFrom } from '../workers/random.mjs';

/** Names of one thread. A key gets any of the stripes that were freed last, as in the native engine. */
class Names implements ExactKeys {
  readonly stripes = new Map<LockKey, number>();
  readonly used = new Set<number>();
  /** Stripes of keys that were pinned once, and not otherwise since. */
  readonly once = new Set<number>();
  reused = 0;
  /** Whether the engine says that most keys recur. */
  recurring = false;
  /** How often it was asked. */
  pins = 0;
  /** Of acquisitions that are under way: none of these may be unpinned or reused. */
  readonly lookedUp = new Set<number>();
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

  pin(key: LockKey): number {
    this.pins++;
    const answer = this.#pin(key);
    return answer === NO_STRIPE || !this.recurring ? answer : answer | RECURRING;
  }

  #pin(key: LockKey): number {
    const known = this.stripes.get(key);
    if (known !== undefined) {
      this.once.delete(known);
      return known | PINNED_AGAIN;
    }
    if (this.#free.length === 0) return NO_STRIPE;
    const last = Math.min(this.#free.length, 100);
    const [stripe] = this.#free.splice(this.#free.length - 1 - below(this.#random, last), 1) as [number];
    this.stripes.set(key, stripe);
    this.#keys.set(stripe, key);
    return stripe | (this.stripes.size > this.#crowdedFrom ? CROWDED : 0);
  }

  pinOnce(key: LockKey): number {
    const known = this.stripes.get(key);
    if (known !== undefined) return known | PINNED_AGAIN | (this.recurring ? RECURRING : 0);
    const [idle] = [...this.once].filter((stripe) => !this.used.has(stripe));
    if (idle !== undefined && this.#random() < 0.9) {
      if (this.lookedUp.size > 0) expect.fail('reuses a stripe while an acquisition is under way');
      this.stripes.delete(this.#keys.get(idle)!);
      this.#keys.set(idle, key);
      this.stripes.set(key, idle);
      this.reused++;
      this.pins++;
      return idle | REUSED | (this.recurring ? RECURRING : 0);
    }
    const answer = this.pin(key);
    if (answer !== NO_STRIPE) this.once.add(answer & STRIPE_MASK);
    return answer;
  }

  unpin(stripes: Int32Array, count: number): number {
    if (this.lookedUp.size > 0) expect.fail('unpins while an acquisition is under way');
    // However often those in use were looked up.
    if (count > 2 * this.#capacity) expect.fail(`${count} pins outside of the cache`);
    let kept = 0;
    for (const stripe of new Set(stripes.slice(0, count))) {
      const key = this.#keys.get(stripe);
      if (key === undefined) continue;
      if (this.used.has(stripe)) {
        stripes[kept++] = stripe;
        continue;
      }
      this.#keys.delete(stripe);
      this.once.delete(stripe);
      this.stripes.delete(key);
      this.#free.push(stripe);
    }
    return kept;
  }

  inUse(): number {
    return this.used.size;
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
      const index = new ExactKeyIndex(names, capacity, '', () => undefined);
      const held: LockKey[] = [];
      for (let step = 0; step < 300_000; step++) {
        const key = random() < 0.5 ? step % keys : below(random, keys);
        if (random() < 0.1) {
          // An acquisition that runs code of the program, which looks up another key.
          index.begin();
          const outer = index.stripeOf(below(random, keys), 'key');
          names.lookedUp.add(outer);
          const inner = index.stripeOf(key, 'key');
          if (inner !== names.stripes.get(key)) expect.fail(`step ${step}: ${inner} is not of key ${key}`);
          names.lookedUp.delete(outer);
          index.busy--;
        }
        if (step % 5000 === 0) names.recurring = random() < 0.5;
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
      expect(names.stripes.size).toBeLessThanOrEqual(crowdedFrom + 64 + held.length);
      // Of so many keys most bypass the cache.
      if (keys > capacity) expect(names.reused).toBeGreaterThan(1000);
      for (const key of held) names.used.delete(names.stripes.get(key)!);
      expect(index.dropIdle()).toBe(true);
      expect(names.stripes.size).toBe(0);
    });
  }
});
