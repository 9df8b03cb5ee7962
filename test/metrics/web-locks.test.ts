import { describe, expect, it } from 'vitest';
import { KeyedLock, LeaseManager } from 'stripelock';
import { ProcessLock } from 'stripelock/process';
import { collect, type Metrics } from 'stripelock/metrics';
import { LockManager, locks, type LockOptions } from 'stripelock/web-locks';
import { rejectionOf, until } from '../support/waiting.js';
import { lockPath } from '../process/peer.js';

function metricsOf(name: string): Metrics {
  const found = collect().filter((metrics) => metrics.name === name);
  expect(found).toMatchObject([{ kind: 'web-lock' }]);
  return found[0]!;
}

/** Holds the name until the returned function is called. */
async function hold(
  manager: LockManager,
  name: string,
  options: LockOptions = {},
): Promise<() => Promise<unknown>> {
  let release!: () => void;
  const held = new Promise<void>((resolve) => (release = resolve));
  let ended!: Promise<unknown>;
  await new Promise<void>((granted) => {
    ended = manager.request(name, options, () => {
      granted();
      return held;
    });
    ended.catch(() => undefined);
  });
  return () => {
    release();
    return ended;
  };
}

describe('collect', () => {
  it('counts web locks by the name of their manager, and the lengths of their waits', async () => {
    const manager = new LockManager({ name: 'names' });
    const release = await hold(manager, 'a');
    const waits = [manager.request('a', () => 1), manager.request('a', () => 2)];
    expect(metricsOf('names')).toMatchObject({
      ...{ kind: 'web-lock', locks: 1, held: 1, waiting: 2, contended: 2, timeouts: 0, aborts: 0 },
      waits: { count: 0 },
    });
    await release();
    expect(await Promise.all(waits)).toEqual([1, 2]);
    expect(metricsOf('names')).toMatchObject({ held: 0, waiting: 0, contended: 2, waits: { count: 2 } });
  });

  it('counts requests for web locks by how they ended, whatever happens to them', async () => {
    const manager = new LockManager({ name: 'ends of requests' });
    const release = await hold(manager, 'a');
    const abort = new AbortController();
    const aborted = rejectionOf(manager.request('a', { signal: abort.signal }, () => 1));
    await rejectionOf(manager.request('a', { timeout: 10 }, () => 1));
    await rejectionOf(manager.request('a', { timeout: 0 }, () => 1));
    expect(await manager.request('a', { ifAvailable: true }, (lock) => lock)).toBeNull();
    abort.abort();
    await aborted;
    // Granted, and aborted in the same tick.
    const late = new AbortController();
    const granted = rejectionOf(manager.request('b', { signal: late.signal }, () => 1));
    late.abort();
    await granted;
    // A callback that fails.
    await rejectionOf(manager.request('c', () => Promise.reject(new Error('fails'))));
    expect(metricsOf('ends of requests')).toMatchObject({
      ...{ held: 1, waiting: 0, contended: 2, timeouts: 2, aborts: 2 },
      waits: { count: 2 },
    });
    await release();
    expect(metricsOf('ends of requests')).toMatchObject({ held: 0, waiting: 0 });
  });

  it('counts a stolen web lock as held by the thief alone', async () => {
    const manager = new LockManager({ name: 'stolen' });
    const robbed = await hold(manager, 'a');
    const release = await hold(manager, 'a', { steal: true });
    await until(() => metricsOf('stolen').held === 1, 'the theft is reported');
    await rejectionOf(robbed());
    expect(metricsOf('stolen')).toMatchObject({ held: 1 });
    await release();
    expect(metricsOf('stolen')).toMatchObject({ held: 0 });
  });

  it('gives each kind its own entry, and no two entries without a name of one kind the same name', async () => {
    const path = lockPath();
    const leases = new LeaseManager();
    const file = new ProcessLock({ path });
    const keyed = new KeyedLock();
    keyed.acquireSync('key').release();
    await leases.withLease('key', () => undefined);
    await locks.request('key', () => undefined);
    await file.withLock('key', () => undefined);
    const kinds = collect().map(({ kind, name }) => [kind, name]);
    expect(kinds).toEqual(
      expect.arrayContaining([
        ['lock', ''],
        ['process', path],
        ['lease', 'leases'],
        ['web-lock', 'web-locks'],
      ]),
    );
    const named = collect().filter(({ name }) => ['', 'leases', 'web-locks', path].includes(name));
    expect(named.length).toBe(4);
    await leases.close();
    await file.close();
  });
});
