import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LeaseManager, type Lease } from 'stripelock';
import { randomFrom } from '../workers/random.mjs';
import { seedFor } from '../support/seed.js';
import { turns, until } from '../support/waiting.js';
import { FaultyStore } from './faulty-store.js';
import { ways } from './several-stores.js';

const backoff = { initial: 2, max: 10 };
/** Milliseconds: much longer than any of these acquisitions takes, unless it starves. */
const timeout = 60_000;

/** Fails if two hold a key at the same time. */
class Guarded {
  readonly #held = new Map<string, Lease>();
  grants = 0;

  async during(lease: Lease, work: () => Promise<unknown>): Promise<void> {
    for (const key of lease.keys) {
      expect(this.#held.get(key)).toBeUndefined();
      this.#held.set(key, lease);
    }
    this.grants++;
    await work();
    for (const key of lease.keys) this.#held.delete(key);
  }
}

describe.each(ways)('leases of overlapping keys, taken %s', (_way, make) => {
  it('never wait for each other for good, and never overlap', async () => {
    const store = make();
    const random = randomFrom(seedFor('overlapping keys'));
    const guarded = new Guarded();
    const keys = ['a', 'b', 'c', 'd', 'e'];
    const workers = Array.from({ length: 6 }, async () => {
      const manager = new LeaseManager({ store, backoff });
      for (let i = 0; i < 15; i++) {
        const some = keys.filter(() => random() < 0.5);
        // In any order.
        if (random() < 0.5) some.reverse();
        const lease = await manager.acquire(some, { timeout });
        await guarded.during(lease, () => (random() < 0.5 ? turns(1) : delay(2)));
        await lease.release();
      }
    });
    await Promise.all(workers);
    expect(guarded.grants).toBe(6 * 15);
  });

  it('are granted although others take the keys one by one, all the time', async () => {
    const store = make();
    let ended = false;
    const traffic = ['a', 'a', 'b', 'b', 'c', 'c'].map(async (key) => {
      const manager = new LeaseManager({ store, backoff });
      while (!ended) await manager.withLease(key, { timeout }, () => delay(3));
    });
    const manager = new LeaseManager({ store, backoff });
    for (let i = 0; i < 5; i++) await manager.withLease(['a', 'b', 'c'], { timeout }, () => turns(1));
    ended = true;
    await Promise.all(traffic);
  });
});

/** Refuses as the script says, and then "b" until it is opened. */
class ScriptedStore extends FaultyStore {
  readonly asks: string[] = [];
  isOpen = false;
  readonly #script: string[];

  constructor(...script: string[]) {
    super();
    this.#script = script;
  }

  override async tryAcquire(key: string, owner: string, ttl: number): Promise<bigint | undefined> {
    const answer = this.#script.shift() ?? (key === 'b' && !this.isOpen ? 'no' : 'yes');
    if (this.#script.length > 0 || answer === 'yes') this.asks.push(`${key} ${answer}`);
    return answer === 'no' ? undefined : super.tryAcquire(key, owner, ttl);
  }
}

it('holds nothing while it waits for the key that it was refused; after three rounds it keeps its keys, and renews them', async () => {
  const store = new ScriptedStore('no', 'yes', 'no', 'yes', 'no', 'yes', 'no', 'yes');
  const manager = new LeaseManager({ store, backoff, ttl: 2000, renew: { every: 20 } });
  const acquired = manager.acquire(['b', 'a'], { timeout });
  await until(() => store.count('renew') >= 4, 'what it holds was renewed');
  expect(store.asks.slice(0, 8)).toEqual([
    'a no',
    'a yes',
    'b no',
    'b yes',
    'a no',
    'a yes',
    'b no',
    'a yes',
  ]);
  // What it took in the three rounds it gave back, and asked again as another owner.
  expect(store.count('release')).toBe(3);
  const token = (await store.inspect('a'))?.token;
  store.isOpen = true;
  const lease = await acquired;
  expect(lease.tokens.get('a')).toBe(token);
  expect([lease.keys, lease.held]).toEqual([['a', 'b'], true]);
  await lease.release();
});

it('takes again what it has lost while it waited for the rest', async () => {
  const store = new ScriptedStore('no', 'yes', 'no', 'yes', 'no', 'yes', 'no', 'yes');
  const manager = new LeaseManager({ store, backoff, ttl: 2000, renew: { every: 20 } });
  const acquired = manager.acquire(['a', 'b'], { timeout });
  await until(() => store.count('renew') >= 1, 'it holds "a" and waits for "b"');
  const lost = await store.inspect('a');
  await store.inner.release('a', lost!.owner);
  await until(() => store.count('renew') >= 2, 'it asked for another renewal');
  store.isOpen = true;
  const lease = await acquired;
  expect(lease.held).toBe(true);
  expect(lease.tokens.get('a')).toBeGreaterThan(lost!.token);
  await lease.release();
});
