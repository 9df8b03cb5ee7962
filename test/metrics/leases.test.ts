import { once } from 'node:events';
import { afterEach, describe, expect, it } from 'vitest';
import { LeaseManager, MemoryLeaseStore } from 'stripelock';
import { collect, type LeaseMetrics } from 'stripelock/metrics';
import { runProgram } from '../support/programs.js';
import { startThread } from '../support/threads.js';
import { rejectionOf, until } from '../support/waiting.js';
import { failing, FaultyStore } from '../leases/faulty-store.js';
import { onFaultyStore, onFixedClock } from '../leases/fixed-time.js';

/** Each test has managers with a separate name, because counts stay. */
function metricsOf(name: string): LeaseMetrics {
  const found = collect().filter((metrics) => metrics.name === name);
  expect(found).toMatchObject([{ kind: 'lease' }]);
  return found[0] as LeaseMetrics;
}

const open: LeaseManager[] = [];
function managerNamed(name: string, store?: MemoryLeaseStore): LeaseManager {
  const manager = new LeaseManager({ name, ...(store && { store }) });
  open.push(manager);
  return manager;
}
afterEach(async () => {
  for (const manager of open.splice(0)) await manager.close();
});

describe('collect', () => {
  it('counts leases by the name of their managers: held, granted, refused, and the lengths of their waits', async () => {
    const store = new MemoryLeaseStore();
    const [one, two] = [managerNamed('two managers', store), managerNamed('two managers', store)];
    const lease = await one.acquire(['a', 'b']);
    expect(await two.tryAcquire('a')).toBeUndefined();
    expect(await two.withLease('b', { ifAvailable: true }, () => 'never')).toBeUndefined();
    // The second stands behind the first, and never asks before it is refused.
    const waits = [two.acquire('a'), two.acquire('a')];
    await until(() => metricsOf('two managers').waiting === 2, 'both are refused');
    expect(metricsOf('two managers')).toMatchObject({
      ...{ locks: 2, held: 2, waiting: 2, contended: 2, acquired: 2, refused: 2 },
      ...{ timeouts: 0, aborts: 0, deadlocks: 0, abandoned: 0, renewals: 0, failures: 0, losses: 0 },
      waits: { count: 0, sum: 0 },
    });
    await lease.release();
    for (const wait of waits) await (await wait).release();
    const idle = metricsOf('two managers');
    expect(idle).toMatchObject({ held: 0, waiting: 0, contended: 2, acquired: 4, refused: 2, losses: 0 });
    expect(idle.waits.count).toBe(2);
    expect(idle.waits.counts.reduce((sum, each) => sum + each)).toBe(2);
    expect(idle.waits.sum).toBeGreaterThan(0);
  });

  it('counts acquisitions of leases by how they ended', async () => {
    const store = new MemoryLeaseStore();
    const leases = managerNamed('ends of leases', store);
    const lease = await leases.acquire('key');
    expect(await rejectionOf(leases.acquire('key', { timeout: 0 }))).toMatchObject({
      code: 'ERR_LOCK_TIMEOUT',
    });
    expect(await rejectionOf(leases.acquire('key', { timeout: 20 }))).toMatchObject({
      code: 'ERR_LOCK_TIMEOUT',
    });
    const abort = new AbortController();
    const aborted = rejectionOf(leases.acquire('key', { signal: abort.signal }));
    await until(() => metricsOf('ends of leases').waiting === 1, 'it waits');
    abort.abort();
    await aborted;
    expect(metricsOf('ends of leases')).toMatchObject({
      ...{ contended: 2, waiting: 0, timeouts: 2, aborts: 1, refused: 0, acquired: 1 },
      waits: { count: 2 },
    });
    await lease.release();
  });

  it('counts renewals, failures of the store, and losses', async () => {
    const name = 'renewals';
    const { store, manager } = onFaultyStore({ name, renew: false });
    const lease = await manager.acquire('key');
    await lease.renew();
    expect(metricsOf(name)).toMatchObject({ held: 1, renewals: 1, failures: 0, losses: 0 });
    store.before.renew = () => failing();
    await rejectionOf(lease.renew());
    expect(metricsOf(name)).toMatchObject({ held: 1, renewals: 1, failures: 1, losses: 0 });
    store.before.tryAcquire = () => failing();
    await rejectionOf(manager.tryAcquire('other'));
    expect(metricsOf(name)).toMatchObject({ held: 1, acquired: 1, failures: 2, refused: 0 });
    await manager.close();
    expect(metricsOf(name)).toMatchObject({ locks: 0, held: 0, losses: 1 });
    expect(store).toBeInstanceOf(FaultyStore);
  });

  it('counts a lease that expires as a loss, once', async () => {
    const { clock, manager } = onFixedClock({ name: 'expires', renew: false });
    const lease = await manager.acquire('key');
    clock.advance(1_000_000);
    expect([lease.held, lease.held]).toEqual([false, false]);
    await lease.release();
    expect(metricsOf('expires')).toMatchObject({ held: 0, losses: 1 });
    await manager.close();
    expect(metricsOf('expires')).toMatchObject({ locks: 0, losses: 1 });
  });

  it('counts renewals in the background for the thread that holds the lease', async () => {
    const leases = managerNamed('background');
    const lease = await leases.acquire('key', {
      ...{ ttl: 300, maxHold: 60_000, renew: { background: true, every: 5 } },
    });
    await until(() => metricsOf('background').renewals > 2, 'it is renewed');
    expect(metricsOf('background')).toMatchObject({ locks: 1, held: 1, acquired: 1 });
    await lease.release();
    expect(metricsOf('background')).toMatchObject({ held: 0 });
  });

  it.each([true, false])(
    'counts the leases and web locks of other threads, even blocked ones (%s), and keeps the counts of threads that ended',
    async (blocks) => {
      const name = `threads ${blocks}`;
      const webLocks = (): Record<string, number> => {
        const found = collect().find(({ kind, name }) => kind === 'web-lock' && name === 'web-locks');
        const { held = 0, waiting = 0, contended = 0, abandoned = 0 } = found ?? {};
        return { held, waiting, contended, abandoned };
      };
      const store = new MemoryLeaseStore();
      const leases = managerNamed(name, store);
      const lease = await leases.acquire('held by main');
      const { locks } = await import('stripelock/web-locks');
      const before = webLocks();
      let release!: () => void;
      const holds = locks.request('held by main', () => new Promise<void>((resolve) => (release = resolve)));
      await until(() => webLocks()['held'] === before['held']! + 1, 'the main thread has the lock');
      const end = new Int32Array(new SharedArrayBuffer(4));
      const data = { handle: store.handle, name, until: end, blocks };
      const thread = startThread('count-leases-and-names.mjs', data);
      const ended = once(thread, 'exit');
      await once(thread, 'message');
      expect(metricsOf(name)).toMatchObject({ locks: 2, held: 2, waiting: 1, acquired: 2, contended: 1 });
      expect(webLocks()).toEqual({
        held: before['held']! + 2,
        waiting: 1,
        contended: before['contended']! + 1,
        abandoned: before['abandoned'],
      });
      Atomics.store(end, 0, 1);
      Atomics.notify(end, 0);
      await ended;
      expect(metricsOf(name)).toMatchObject({
        ...{ locks: 1, held: 1, waiting: 0, acquired: 2, contended: 1, abandoned: 1 },
      });
      expect(webLocks()).toEqual({
        held: before['held']! + 1,
        waiting: 0,
        contended: before['contended']! + 1,
        abandoned: before['abandoned']! + 1,
      });
      await lease.release();
      release();
      await holds;
    },
  );

  it('counts a manager as open until it is closed or garbage-collected', async () => {
    const { code, stdout, stderr } = await runProgram('collected-managers.mjs', [], ['--expose-gc']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toEqual([1, 0]);
  });

  it('counts leases of too many names of one thread under the empty name', async () => {
    const named = (): number => collect().filter(({ kind }) => kind === 'lease').length;
    for (let i = 0; i < 1200; i++) await managerNamed(`of many ${i}`).tryAcquire('key');
    expect(named()).toBeLessThanOrEqual(1001);
    expect(metricsOf('').held).toBeGreaterThanOrEqual(200);
  });
});
