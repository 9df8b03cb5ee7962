import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { LeaseManager, type WarningLeaseManagerOptions } from 'stripelock';
import { block } from '../support/block.js';
import { openLeaseStore, type Place } from '../support/open-lease-store.mjs';
import { startThread } from '../support/threads.js';
import { until } from '../support/waiting.js';

/** Milliseconds that a busy machine may take for what should take none. */
const SLACK = 10_000;
/** Servers of a busy machine may take seconds to grant. */
const WAIT = { timeout: 30_000 };

/** Another thread that asks for the key until it gets it. */
class Contender {
  readonly #granted = new BigInt64Array(new SharedArrayBuffer(8));
  readonly #started = process.hrtime.bigint();

  constructor(place: Place) {
    startThread('lease-contender.mjs', { place, granted: this.#granted.buffer });
  }

  get isGranted(): boolean {
    return Atomics.load(this.#granted, 0) !== 0n;
  }

  /** Milliseconds from its start to its grant. */
  async grantedAfter(): Promise<number> {
    await until(() => this.isGranted, 'the other thread has the key');
    return Number(Atomics.load(this.#granted, 0) - this.#started) / 1e6;
  }
}

async function managerOn(at: Place, ttl: number, options: WarningLeaseManagerOptions): Promise<LeaseManager> {
  const { store, close } = await openLeaseStore(at);
  const manager = new LeaseManager({ store, ttl, renew: { background: true }, ...options });
  onTestFinished(async () => {
    await manager.close();
    await close();
  });
  return manager;
}

/**
 * A holder that is blocked keeps its lease. `place`: where the store is. `ttl`: in milliseconds; long enough for a renewal
 * by a thread of a busy machine to come in time.
 */
export function itKeepsItsLease(place: () => Place | Promise<Place>, ttl: number, ttls: number): void {
  it(`a holder that is blocked for ${ttls} TTLs keeps its lease, and continues`, async () => {
    const at = await place();
    const manager = await managerOn(at, ttl, { maxHold: 600_000 });
    const lease = await manager.acquire('key', WAIT);
    const contender = new Contender(at);
    await delay(ttl);
    block(ttls * ttl);
    expect(lease.held).toBe(true);
    expect(lease.signal.aborted).toBe(false);
    lease.assertHeld();
    expect(lease.expiresAt).toBeGreaterThan(performance.now());
    expect(contender.isGranted).toBe(false);
    expect(await manager.store.inspect('key')).toMatchObject({ token: lease.token });
    await delay(2 * ttl);
    expect(lease.held).toBe(true);
    expect(contender.isGranted).toBe(false);
    expect(await lease.release()).toBe(true);
    await contender.grantedAfter();
  }, 60_000);
}

/** All that renewal in the background promises, on one store. */
export function describeBackground(place: () => Place | Promise<Place>, ttl: number): void {
  itKeepsItsLease(place, ttl, 10);

  it('a holder that is blocked while it renews by hand keeps its lease', async () => {
    const manager = await managerOn(await place(), ttl, { maxHold: 600_000 });
    const lease = await manager.acquire('key', WAIT);
    // It runs after the request was sent, and before the code that gets the answer.
    queueMicrotask(() => block(3 * ttl));
    const renewed = lease.renew();
    expect(await renewed).toBe(true);
    expect(lease.held).toBe(true);
    expect(lease.expiresAt).toBeGreaterThan(performance.now());
    expect(await lease.release()).toBe(true);
  });

  it('a lease that minHold keeps after its release is not extended any more', async () => {
    const at = await place();
    const manager = await managerOn(at, ttl, { maxHold: 600_000, minHold: 2 * ttl });
    const lease = await manager.acquire('key', WAIT);
    await delay(ttl);
    expect(await lease.release()).toBe(true);
    // The rest is less than one TTL; a renewal would make it a whole one, again and again.
    expect(lease.held).toBe(false);
    const contender = new Contender(at);
    expect(await contender.grantedAfter()).toBeLessThan(SLACK);
  }, 60_000);

  it('several keys of a holder that is blocked for 3 TTLs stay its own', async () => {
    const at = await place();
    const manager = await managerOn(at, ttl, { maxHold: 600_000 });
    const lease = await manager.acquire(['another', 'key'], WAIT);
    const contender = new Contender(at);
    await delay(ttl);
    block(3 * ttl);
    expect(lease.held).toBe(true);
    expect(contender.isGranted).toBe(false);
    await delay(2 * ttl);
    expect(lease.held).toBe(true);
    expect(await lease.setInfo('still here')).toBe(true);
    expect(await manager.store.inspect('key')).toMatchObject({ info: 'still here' });
    expect(contender.isGranted).toBe(false);
    expect(await lease.release()).toBe(true);
    await contender.grantedAfter();
  }, 60_000);

  it('a holder that is blocked beyond maxHold loses its lease, knows it at once, and another gets it', async () => {
    const at = await place();
    const maxHold = 3 * ttl;
    const manager = await managerOn(at, ttl, { maxHold });
    const lease = await manager.acquire('key', WAIT);
    const contender = new Contender(at);
    const { signal } = lease;
    const aborted = once(signal, 'abort');
    // It has a grant by then, if it takes no longer than a busy machine may.
    for (let i = 0; i < 100 && !contender.isGranted; i++) block(ttl);
    expect(lease.held).toBe(false);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ code: 'ERR_LEASE_LOST' });
    expect(() => lease.assertHeld()).toThrow(/is not held/);
    await aborted;
    const after = await contender.grantedAfter();
    // The contender started a little after the grant.
    expect(after).toBeGreaterThan(maxHold - ttl);
    expect(after).toBeLessThan(maxHold + ttl + SLACK);
    expect(await lease.release()).toBe(false);
  }, 60_000);

  it('a holder whose thread is terminated while it is blocked loses its lease within about a TTL', async () => {
    const at = await place();
    const holder = startThread('blocked-holder.mjs', { place: at, ttl });
    await once(holder, 'message');
    const contender = new Contender(at);
    await delay(5 * ttl);
    expect(contender.isGranted).toBe(false);
    await holder.terminate();
    const terminated = performance.now();
    await contender.grantedAfter();
    expect(performance.now() - terminated).toBeLessThan(ttl + SLACK);
  }, 60_000);
}
