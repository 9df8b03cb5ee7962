import { once } from 'node:events';
import { renameSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { KeyedLock, LeaseManager, StripedLock } from 'stripelock';
import { collect, LEASE_INSTRUMENTS, LOCK_INSTRUMENTS, type LockMetrics } from 'stripelock/metrics';
import { ProcessLock } from 'stripelock/process';
import { profileContention } from 'stripelock/profile';
import { METRIC_CELLS } from '../../lib/engine/contract/layout.js';
import { lockPath } from '../process/peer.js';
import { messagesOf } from '../support/channels.js';
import { runProgram } from '../support/programs.js';
import { startThread } from '../support/threads.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';

const pause = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The code of the error that a function throws; undefined if it does not throw. */
function codeOf(fn: () => unknown): unknown {
  try {
    fn();
    return undefined;
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
}

/** Each test has locks with a separate name, as what ended stays. */
function metricsOf(name: string): LockMetrics {
  const [found, ...more] = collect().filter((metrics) => metrics.name === name);
  expect(more).toEqual([]);
  return found!;
}

describe('collect', () => {
  it('counts holders and waiters of all threads by name, and the lengths of their waits', async () => {
    collect();
    const locks = [new StripedLock({ name: 'two' }), new KeyedLock({ name: 'two' })] as const;
    const thread = startThread('hold-for.mjs', { handle: locks[1].handle, key: 'far', milliseconds: 600 });
    const ended = once(thread, 'exit');
    await once(thread, 'message');
    const guard = locks[0].acquireSync(['a', 'b']);
    const next = locks[0].acquire('a');
    // This one waits in the addon, and the next in JavaScript behind it.
    const far = [locks[1].acquire('far'), locks[1].acquire('far')];
    const busy = metricsOf('two');
    expect(busy).toMatchObject({ locks: 2, held: 3, waiting: 3, timeouts: 0, aborts: 0, abandoned: 0 });
    expect(busy.waits.count).toBe(0);
    await pause(20);
    guard.release();
    (await next).release();
    for (const waits of far) (await waits).release();
    await ended;
    const idle = metricsOf('two');
    expect(idle).toMatchObject({ locks: 2, held: 0, waiting: 0, contended: 3, deadlocks: 0 });
    const { bounds, counts, count, sum } = idle.waits;
    expect(count).toBe(3);
    expect(counts.length).toBe(bounds.length + 1);
    // 20 ms, and twice what was left of 600 ms.
    const atLeast = (seconds: number): number =>
      counts.reduce((total, each, at) => ((bounds[at - 1] ?? 0) >= seconds ? total + each : total), 0);
    expect(atLeast(0.01)).toBe(3);
    expect(sum).toBeGreaterThan(0.2);
    expect(sum).toBeLessThan(10);
  });

  it('counts acquisitions by how they ended', async () => {
    collect();
    const lock = new KeyedLock({ name: 'ends' });
    const guard = lock.acquireSync('key');
    const late = lock.acquire('key', { timeout: 10 }).catch(() => undefined);
    const abort = new AbortController();
    const aborted = lock.acquire('key', { signal: abort.signal }).catch(() => undefined);
    thrownBy(() => lock.acquireSync('key'));
    await late;
    abort.abort();
    await aborted;
    guard.release();
    const ended = metricsOf('ends');
    expect(ended).toMatchObject({ contended: 2, timeouts: 1, aborts: 1, deadlocks: 1 });
    expect(ended.waits.count).toBe(2);
  });

  it('counts a wait that ends because the file of a ProcessLock is gone, but no refusal without a wait', async () => {
    collect();
    const file = lockPath();
    const lock = new ProcessLock({ path: file, name: 'fails' });
    onTestFinished(() => lock.close());
    const messages = messagesOf('stripelock:wait');
    const profiler = await profileContention({ locks: ['fails'], threshold: 0, sample: 0.001 });
    const guard = lock.acquireSync('key');
    const pending = rejectionOf(lock.acquire('key'));
    renameSync(file, `${file}.away`);
    const replaced = { code: 'ERR_LOCK_FILE_REPLACED' };
    // A process checks the path at most every 100 ms.
    await expect.poll(() => codeOf(() => lock.acquireSync('other').release())).toBe(replaced.code);
    expect(await rejectionOf(lock.acquire('other'))).toMatchObject(replaced);
    guard.release();
    expect(await pending).toMatchObject(replaced);
    expect(metricsOf('fails')).toMatchObject({ contended: 1, waiting: 0, waits: { count: 1 } });
    expect(messages).toMatchObject([{ lock: 'fails', key: 'key', outcome: 'failed' }]);
    expect((await profiler.stop()).waits).toMatchObject([{ lock: 'fails', outcome: 'failed' }]);
  });

  it('keeps the counts of threads that ended, and of locks that are gone', async () => {
    collect();
    let lock: KeyedLock | undefined = new KeyedLock({ name: 'gone' });
    const thread = startThread('hold-for.mjs', { handle: lock.handle, key: 'key', milliseconds: 300 });
    const ended = once(thread, 'exit');
    await once(thread, 'message');
    lock.acquireSync('key').release();
    await ended;
    expect(metricsOf('gone')).toMatchObject({ locks: 1, contended: 1, waits: { count: 1 } });
    lock = undefined;
    // Programs that close locks by collection are tried in a process with `--expose-gc`.
    const { code, stdout, stderr } = await runProgram('collected-metrics.mjs', [], ['--expose-gc']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const [open, closed, again] = JSON.parse(stdout) as LockMetrics[];
    expect(open).toMatchObject({ name: 'collected', locks: 1, contended: 1, waits: { count: 1 } });
    expect(closed).toEqual({ ...open!, locks: 0 });
    expect(again).toMatchObject({ locks: 1, contended: 2, waits: { count: 2 } });
  });

  it('measures no wait before it is called first', async () => {
    const { code, stdout, stderr } = await runProgram('collected-metrics.mjs', ['late'], ['--expose-gc']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const [open] = JSON.parse(stdout) as LockMetrics[];
    expect(open).toMatchObject({ contended: 1, waits: { count: 0, sum: 0 } });
  });

  it('has each metric of stats(), and each of its numbers in an instrument', () => {
    new KeyedLock({ name: 'fields' });
    const { kind: _, name: __, waits: ___, ...numbers } = metricsOf('fields');
    expect(LOCK_INSTRUMENTS.map(({ field }) => field).sort()).toEqual(Object.keys(numbers).sort());
    expect(Object.keys(numbers)).toEqual(expect.arrayContaining(Object.keys(METRIC_CELLS)));
    const rising = LOCK_INSTRUMENTS.filter(({ kind }) => kind === 'counter').map(({ field }) => field);
    expect(rising).toEqual(['contended', 'timeouts', 'aborts', 'deadlocks', 'abandoned']);
  });

  it('has each further number of leases in an instrument', () => {
    new LeaseManager({ name: 'fields of leases' });
    const { kind: _, name: __, waits: ___, ...numbers } = metricsOf('fields of leases');
    const instruments = [...LOCK_INSTRUMENTS, ...LEASE_INSTRUMENTS];
    expect(instruments.map(({ field }) => field).sort()).toEqual(Object.keys(numbers).sort());
    expect(new Set(instruments.map(({ name }) => name)).size).toBe(instruments.length);
    expect(LEASE_INSTRUMENTS.filter(({ kind }) => kind !== 'counter')).toEqual([]);
  });
});
