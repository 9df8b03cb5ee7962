import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { hasEtcd } from '../support/etcd-server.mjs';
import type { EtcdGateway } from '../support/etcd-gateway.js';
import { EtcdScene, type EtcdStore, expectSoon, PATIENT, RANGE, TXN } from './etcd-setup.js';

const LONG = 60_000;
/** Milliseconds: far below the first pause between two attempts, and far above what a hand-over takes. */
const SOON = 5000;
const WAIT = { timeout: 50_000 };

describe.runIf(hasEtcd)('waiting for a lease of the etcd store', () => {
  const etcd = new EtcdScene();
  let gateway: EtcdGateway;
  /** Which waits, through the gateway. */
  let store: EtcdStore;
  let holder: EtcdStore;

  beforeEach(async () => {
    ({ gateway, store } = await etcd.beginBehindGateway());
    holder = etcd.store();
  });

  const patient = (): LeaseManager => {
    const manager = new LeaseManager({ store, backoff: PATIENT });
    onTestFinished(() => manager.close());
    return manager;
  };
  /** It was refused, and again when its watch was there: from now on only a release wakes it. */
  const waits = (key: string): Promise<void> =>
    expectSoon(async () => [
      gateway.watches > 0,
      gateway.asked.at(-1),
      await holder.inspect(key).then(Boolean),
    ]).toEqual([true, RANGE, true]);

  it('ends soon after the release in another process', async () => {
    await holder.tryAcquire('key', 'me', LONG);
    const waiting = patient().acquire('key', WAIT);
    await waits('key');
    const released = performance.now();
    await holder.release('key', 'me');
    expect((await waiting).held).toBe(true);
    expect(performance.now() - released).toBeLessThan(SOON);
  });

  it('ends soon after the lease expires', async () => {
    await holder.tryAcquire('key', 'somebody who died', 900);
    const started = performance.now();
    const lease = await patient().acquire('key', WAIT);
    expect(performance.now() - started).toBeGreaterThan(900);
    expect(performance.now() - started).toBeLessThan(900 + SOON);
    expect(lease.held).toBe(true);
  });

  it('ends at once if the key was released before the watch began', async () => {
    await holder.tryAcquire('key', 'me', LONG);
    gateway.rule = async ({ path, forward }) => {
      const answer = await forward();
      // Refused, and then released, before the answer comes.
      if (path === TXN) await holder.release('key', 'me');
      return answer;
    };
    const started = performance.now();
    await patient().acquire('key', WAIT);
    expect(performance.now() - started).toBeLessThan(SOON);
  });

  it('continues when connections are cut, and notices releases again', async () => {
    await holder.tryAcquire('key', 'me', LONG);
    const waiting = patient().acquire('key', WAIT);
    await waits('key');
    gateway.cut();
    await expectSoon(() => gateway.watches).toBe(2);
    await holder.release('key', 'me');
    const released = performance.now();
    await waiting;
    expect(performance.now() - released).toBeLessThan(SOON);
  });

  it('asks when a watch restarts: the key may have been released in between', async () => {
    await holder.tryAcquire('key', 'me', LONG);
    const waiting = patient().acquire('key', WAIT);
    await waits('key');
    const asked = gateway.asked.length;
    gateway.cut();
    await expectSoon(() => gateway.asked.length).toBeGreaterThan(asked);
    await holder.release('key', 'me');
    await waiting;
  });

  it('is not disturbed by a compaction', async () => {
    await holder.tryAcquire('key', 'me', LONG);
    const waiting = patient().acquire('key', WAIT);
    await waits('key');
    const entry = await etcd.entry('key');
    await etcd.ask('kv/compaction', { revision: entry!.mod_revision, physical: true });
    gateway.cut();
    await expectSoon(() => gateway.watches).toBe(2);
    const released = performance.now();
    await holder.release('key', 'me');
    await waiting;
    expect(performance.now() - released).toBeLessThan(SOON);
  });

  it('writes nothing on the servers while the key is held', async () => {
    await holder.tryAcquire('key', 'me', LONG);
    const impatient = new LeaseManager({ store, backoff: { initial: 5, max: 5, jitter: 0 } });
    const waiting = impatient.acquire('key', WAIT);
    await waits('key');
    const from = gateway.asked.length;
    await expectSoon(() => gateway.asked.length).toBeGreaterThan(from + 10);
    expect(new Set(gateway.asked.slice(from))).toEqual(new Set([RANGE]));
    await holder.release('key', 'me');
    await (await waiting).release();
  });

  it('needs one watch for many keys', async () => {
    const keys = Array.from({ length: 40 }, (_, i) => `key ${i}`);
    await holder.tryAcquireAll(keys, 'me', LONG);
    const manager = patient();
    const waiting = keys.map((key) => manager.acquire(key, WAIT));
    await expectSoon(() => gateway.watches).toBe(1);
    const released = performance.now();
    await holder.releaseAll(keys, 'me');
    await Promise.all(waiting);
    expect(performance.now() - released).toBeLessThan(SOON);
    expect(gateway.watches).toBe(1);
  });

  it('wakes one waiter of many, in turn', async () => {
    await holder.tryAcquire('key', 'me', LONG);
    const woken = [0, 0, 0];
    const ends = woken.map((_, i) => store.onRelease('key', () => woken[i]!++));
    // When the watch begins.
    await expectSoon(() => woken).toEqual([1, 0, 0]);
    for (const expected of [
      [1, 1, 0],
      [1, 1, 1],
      [2, 1, 1],
    ]) {
      await holder.release('key', 'me');
      await expectSoon(() => woken).toEqual(expected);
      await holder.tryAcquire('key', 'me', LONG);
    }
    for (const end of ends) end();
  });

  it('keeps its watch for a moment after the last waiter, because another may follow', async () => {
    const end = store.onRelease('key', () => undefined);
    await expectSoon(() => gateway.watches).toBe(1);
    end();
    store.onRelease('key', () => undefined)();
    store.onRelease('key', () => undefined);
    expect(gateway.watches).toBe(1);
  });
});
