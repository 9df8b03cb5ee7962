import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager, type WarningLeaseManagerOptions } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { block } from '../support/block.js';
import { turns, until } from '../support/waiting.js';
import { failing, FaultyStore, gate } from './faulty-store.js';
import { onFaultyStore } from './fixed-time.js';
import { ReopenableStore } from './reopenable-store.js';
import { inOneStep, ownersOf, recording } from './several-stores.js';

/** Milliseconds. */
const LONG = 600_000;

describe('a renewal', () => {
  it('counts from before its request, however late the answer', async () => {
    const { manager, store, clock } = onFaultyStore({ renew: false });
    const lease = await manager.acquire('key');
    clock.advance(100);
    const answer = store.delayAnswer('renew');
    const renewed = lease.renew();
    await turns();
    clock.advance(150);
    answer.open();
    expect(await renewed).toBe(true);
    expect(lease.expiresAt).toBe(100 + 300);
    expect((await store.inner.inspect('key'))!.remaining).toBe(150);
  });

  it('counts from before its request, if it waits for an earlier one', async () => {
    const { manager, store, clock } = onFaultyStore({ renew: false });
    const lease = await manager.acquire('key');
    const door = store.delayNext('renew');
    const [first, second] = [lease.renew(), lease.renew(200)];
    await turns();
    clock.advance(50);
    door.open();
    expect(await Promise.all([first, second])).toEqual([true, true]);
    expect(store.count('renew')).toBe(2);
    // The last answer counts.
    expect(lease.expiresAt).toBe(50 + 200);
  });

  it.each(['by hand', 'by a timer'])(
    '%s is answered before the release of a named holder is sent',
    async (how) => {
      const { manager, store, clock } = onFaultyStore({ holder: 'me', renew: how === 'by a timer' });
      const lease = await manager.acquire('key');
      const door = store.delayNext('renew');
      if (how === 'by hand') void lease.renew();
      else clock.advance(100);
      await turns();
      const released = lease.release();
      await turns();
      expect(store.asked).toEqual(['tryAcquire', 'renew']);
      door.open();
      expect(await released).toBe(true);
      expect(store.asked).toEqual(['tryAcquire', 'renew', 'release']);
      expect(await store.inner.inspect('key')).toBeUndefined();
    },
  );

  it.each([{}, { holder: 'me' }, { reentrant: true }, { minHold: 10 }])(
    'that never has an answer delays no release beyond the lease, and no close: %o',
    async (terms) => {
      const store = new FaultyStore();
      store.before.renew = gate().pass;
      const manager = new LeaseManager({ store, ttl: 300, renew: false, ...terms });
      const [released, closed] = [await manager.acquire('released'), await manager.acquire('closed')];
      void released.renew();
      void closed.renew();
      await turns();
      await released.release();
      await manager.close();
      expect(closed.held).toBe(false);
      // An expired lease may stay in the table.
      await expect.poll(() => ownersOf(store, ['released', 'closed'])).toEqual([undefined, undefined]);
    },
  );

  it('ends the lease at its new deadline if that is earlier, also without an answer', async () => {
    const { manager, store, clock } = onFaultyStore({ ttl: 5000, renew: false });
    const lease = await manager.acquire('key');
    store.delayNext('renew');
    // To read `signal.aborted` would look at the clock.
    let isAborted = false;
    lease.signal.addEventListener('abort', () => (isAborted = true));
    void lease.renew(50);
    await turns();
    clock.advance(50);
    await until(() => isAborted, 'the signal aborts');
  });
});

describe.each<[string, WarningLeaseManagerOptions]>([
  ['a reentrant manager', { reentrant: true }],
  ['a named holder', { holder: 'me' }],
])('an attempt of %s for its own key and another one', (_who, own) => {
  const attempt = async () => {
    const store = new FaultyStore();
    await new LeaseManager({ store: store.inner }).acquire('b');
    const manager = new LeaseManager({ store, ttl: 200, renew: false, ...own });
    const lease = await manager.acquire('a');
    const door = store.delayNext('tryAcquire');
    const both = manager.tryAcquire(['a', 'b']).catch((error: unknown) => (error as { code: string }).code);
    await turns();
    return { store, manager, lease, door, both };
  };

  it('gives its own key back if it was released in between', async () => {
    const { store, manager, lease, door, both } = await attempt();
    void lease.release();
    door.open();
    expect(await both).toBeUndefined();
    await expect.poll(() => store.inner.inspect('a')).toBeUndefined();
    await manager.close();
  });

  it('hides no lease from close, although it is being renewed', async () => {
    const { store, manager, lease, door, both } = await attempt();
    const renewed = lease.renew();
    const closed = manager.close();
    await turns();
    expect(lease.held).toBe(false);
    door.open();
    await closed;
    expect(await both).toBe('ERR_LEASE_MANAGER_CLOSED');
    expect(await renewed).toBe(false);
    expect(await store.inner.inspect('a')).toBeUndefined();
    expect(await store.inner.inspect('b')).toBeDefined();
  });

  it('delays no end of the lease', async () => {
    const { lease, door } = await attempt();
    const aborted = new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
    await aborted;
    expect(lease.held).toBe(false);
    door.open();
  });
});

describe('leases of a reentrant manager are renewed on time', () => {
  /** The store answers no attempt at "b". */
  const scene = () => {
    const clock = new FixedClock();
    const store = new FaultyStore(clock);
    const tryAcquire = store.tryAcquire.bind(store);
    store.tryAcquire = (key, ...of) => {
      return key === 'b' ? new Promise<never>(() => undefined) : tryAcquire(key, ...of);
    };
    return { clock, store, manager: new LeaseManager({ store, clock, ttl: 300, reentrant: true }) };
  };

  it.each<[string, (readonly string[])[]]>([
    ['while an attempt that shares one waits for another key', [['a', 'b']]],
    ['while such an attempt waits for an attempt before it', [['b'], ['a', 'b']]],
    ['if granted after such an attempt has begun to wait', [['b'], ['b', 'c']]],
  ])('%s', async (_when, attempts) => {
    const { clock, store, manager } = scene();
    const held = await manager.acquire('a');
    for (const keys of attempts) void manager.tryAcquire(keys);
    await turns();
    const lease = attempts.flat().includes('a') ? held : await manager.acquire('c');
    if (lease !== held) await held.release();
    for (let i = 1; i <= 6; i++) {
      clock.advance(100);
      await turns();
      expect([store.count('renew'), lease.expiresAt]).toEqual([i, 100 * i + 300]);
    }
  });
});

it('sends the attempts of one owner one after the other, if one begins as a lease is lost', async () => {
  const store = new FaultyStore();
  const manager = new LeaseManager({ store, ttl: LONG, holder: 'me', renew: false });
  const lease = await manager.acquire('key', { ttl: 20 });
  let inAbort: ReturnType<typeof manager.tryAcquire> | undefined;
  lease.signal.addEventListener('abort', () => {
    inAbort = manager.tryAcquire('key');
  });
  const door = store.delayAnswer('tryAcquire');
  block(30);
  // No timer has run, so the renewal notices the loss.
  const lost = lease.renew();
  const after = manager.tryAcquire('key');
  await turns();
  expect(store.count('tryAcquire')).toBe(2);
  door.open();
  expect(await lost).toBe(false);
  const [first, second] = [await inAbort, await after];
  expect(second!.token).toBeGreaterThan(first!.token);
  expect([first!.held, second!.held]).toEqual([false, true]);
  await second!.release();
  expect(await store.inner.inspect('key')).toBeUndefined();
});

describe('a renewal in the background', () => {
  it('does not delay a release that leaves the rest of minHold to the store, and changes nothing after it', async () => {
    const store = new ReopenableStore();
    const manager = new LeaseManager({ store, ttl: LONG, minHold: LONG / 2 });
    onTestFinished(() => manager.close());
    const lease = await manager.acquire('key', { renew: { background: true, every: 20 }, maxHold: LONG });
    store.late = -1;
    await until(() => store.isRenewing, 'a renewal is on its way');
    expect(await lease.release()).toBe(true);
    expect(store.asked).toEqual(['tryAcquire', 'keep']);
    store.late = 0;
    await until(() => !store.isRenewing, 'the renewal has its answer');
    expect((await store.inspect('key'))!.remaining).toBeLessThanOrEqual(LONG / 2);
  });

  it('is answered before the release of a named holder', async () => {
    const store = new ReopenableStore();
    const manager = new LeaseManager({ store, ttl: LONG, holder: 'me' });
    onTestFinished(() => manager.close());
    const lease = await manager.acquire('key', { renew: { background: true, every: 20 }, maxHold: LONG });
    store.late = -1;
    await until(() => store.isRenewing, 'a renewal is on its way');
    const released = lease.release();
    await turns(20);
    expect(store.asked).toEqual(['tryAcquire']);
    store.late = 0;
    expect(await released).toBe(true);
    expect(await store.inspect('key')).toBeUndefined();
  });
});

describe('a release', () => {
  it('frees no later grant of the same owner, which the manager does not know', async () => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store, holder: 'me', ttl: LONG, renew: false });
    const lease = await manager.acquire('key');
    const token = await store.inner.tryAcquire('key', 'me', LONG);
    expect(await lease.release()).toBe(false);
    expect(await store.inner.inspect('key')).toMatchObject({ owner: 'me', token });
  });

  it('by close frees no later grant of the same owner, either', async () => {
    const store = new FaultyStore();
    const manager = new LeaseManager({ store, holder: 'me', ttl: LONG, renew: false });
    await manager.acquire('key');
    const token = await store.inner.tryAcquire('key', 'me', LONG);
    await manager.close();
    expect(await store.inner.inspect('key')).toMatchObject({ owner: 'me', token });
  });
});

describe('leases that are due soon', () => {
  it('are renewed together with one that is due, although each has a different owner', async () => {
    const { store, asked } = recording(inOneStep());
    const clock = new FixedClock();
    const manager = new LeaseManager({ store, clock, ttl: 3 * LONG, renew: { every: 1000 } });
    for (const key of ['a', 'b', 'c', 'd']) {
      await manager.acquire(key);
      clock.advance(key === 'c' ? 100 : 50);
    }
    asked.length = 0;
    clock.advance(750);
    await turns();
    // The fourth is due 200 ms after the first, more than a tenth of the time between renewals.
    expect(asked).toEqual(['renewAll a,b,c']);
    clock.advance(200);
    await turns();
    expect(asked).toEqual(['renewAll a,b,c', 'renew d']);
    await manager.close();
  });

  it('do not shorten the pause of one whose renewal has failed', async () => {
    const clock = new FixedClock();
    const store = new FaultyStore(clock);
    const backoff = { initial: 500, max: 500 };
    const manager = new LeaseManager({ store, clock, ttl: 30_000, renew: { every: 10_000 }, backoff });
    await manager.acquire('a');
    clock.advance(100);
    await manager.acquire('b');
    clock.advance(9900);
    await turns();
    expect(store.count('renew')).toBe(2);
    store.before.renew = failing;
    clock.advance(10_000);
    await turns();
    expect(store.count('renew')).toBe(4);
    clock.advance(499);
    await turns();
    expect(store.count('renew')).toBe(4);
    clock.advance(1);
    await turns();
    expect(store.count('renew')).toBe(6);
    delete store.before.renew;
    await manager.close();
  });
});

it('close waits for a renewal of a named holder that is under way, and leaves nothing', async () => {
  const store = new FaultyStore();
  const slow = gate();
  store.before.renew = slow.pass;
  const manager = new LeaseManager({ store, ttl: LONG, holder: 'me' });
  const lease = await manager.acquire('key');
  void lease.renew();
  await turns();
  const closed = manager.close();
  await turns();
  expect(store.count('release')).toBe(0);
  slow.open();
  await closed;
  expect(await store.inner.inspect('key')).toBeUndefined();
});
