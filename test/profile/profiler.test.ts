import { once } from 'node:events';
import { threadId, Worker } from 'node:worker_threads';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { KeyedLock, StripedLock, type LockKey } from 'stripelock';
import {
  profileContention,
  type ContentionProfile,
  type ContentionProfileOptions,
  type ContentionProfiler,
} from 'stripelock/profile';
import { loadAddon } from '../../unbundled/engine/native/addon.js';
import { startThread } from '../support/threads.js';
import { thrownBy, until } from '../support/waiting.js';

const pause = (milliseconds: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, milliseconds));

let started: ContentionProfiler | undefined;
afterEach(async () => {
  await started?.stop();
  started = undefined;
});
async function start(options?: ContentionProfileOptions): Promise<ContentionProfiler> {
  return (started = await profileContention(options));
}

/** Waits for a key that another task of this thread holds for a time. */
async function waitsWithin(lock: KeyedLock | StripedLock, key: LockKey, milliseconds: number): Promise<void> {
  const guard = lock.acquireSync(key);
  const next = lock.acquire(key);
  await pause(milliseconds);
  guard.release();
  (await next).release();
}

/** Waits for a key that another thread holds for a time. */
async function waitsForThread(lock: KeyedLock, key: string, milliseconds: number): Promise<void> {
  const thread = startThread('hold-for.mjs', { handle: lock.handle, key, milliseconds });
  const ended = once(thread, 'exit');
  await once(thread, 'message');
  lock.acquireSync(key).release();
  await ended;
}

function shown({ waits }: ContentionProfile): object[] {
  return waits.map(({ lock, key, kind, outcome }) => ({ lock, key, kind, outcome }));
}

describe('profileContention', () => {
  it('names the call that released the key to a task of the same thread, and to another thread', async () => {
    const lock = new KeyedLock({ name: 'both' });
    const profiler = await start();
    await waitsWithin(lock, 7, 20);
    await waitsForThread(lock, 'far', 300);
    const { waits } = await profiler.stop();
    expect(waits.map(({ key, kind }) => [key, kind])).toEqual([
      ['7', 'async'],
      ['"far"', 'sync'],
    ]);
    const [near, far] = waits;
    for (const wait of [near!, far!]) {
      expect(wait.waited).toBeGreaterThan(15);
      expect(wait.weight).toBe(1);
      expect(wait.releases.length).toBe(1);
      // Most of it: the time from the release until the waiter ran is not attributed, and a busy machine makes it long.
      expect(wait.releases[0]!.share).toBeGreaterThan(15);
      expect(wait.releases[0]!.share).toBeLessThanOrEqual(wait.waited);
    }
    expect(near!.frames[0]).toContain('waitsWithin');
    expect(near!.releases[0]!.frames[0]).toContain('waitsWithin');
    expect(near!.releases[0]!.threadId).toBe(near!.threadId);
    expect(far!.frames[0]).toContain('waitsForThread');
    expect(far!.releases[0]!.frames[0]).toContain('holdsForLong');
    expect(far!.releases[0]!.threadId).not.toBe(far!.threadId);
  });

  it('reports refused waits, with the threads that held the key', async () => {
    const lock = new KeyedLock({ name: 'refused' });
    const profiler = await start();
    const thread = startThread('hold-for.mjs', { handle: lock.handle, key: 'k', milliseconds: 1000 });
    const ended = once(thread, 'exit');
    await once(thread, 'message');
    thrownBy(() => lock.acquireSync('k', { timeout: 5 }));
    const abort = new AbortController();
    const aborted = lock.acquire('k', { signal: abort.signal }).catch(() => undefined);
    const late = lock.acquire('k', { timeout: 10, mode: 'shared' }).catch(() => undefined);
    await pause(20);
    abort.abort();
    await Promise.all([aborted, late]);
    const profile = await profiler.stop();
    expect(shown(profile)).toEqual([
      { lock: 'refused', key: '"k"', kind: 'sync', outcome: 'timeout' },
      { lock: 'refused', key: '"k"', kind: 'async', outcome: 'aborted' },
      { lock: 'refused', key: '"k"', kind: 'async', outcome: 'timeout' },
    ]);
    for (const { outcome, holders, releases, frames } of profile.waits) {
      expect(holders).toEqual(outcome === 'timeout' ? [thread.threadId] : []);
      expect(releases).toEqual([]);
      expect(frames[0]).toContain('profiler.test.ts');
    }
    await ended;
  });

  it('leaves out locks with other names, also those that are made later, and shorter waits', async () => {
    const before = new StripedLock({ name: 'wanted' });
    const other = new StripedLock({ name: 'other' });
    const profiler = await start({ locks: ['wanted', 'late'], threshold: 200 });
    const late = new KeyedLock({ name: 'late' });
    for (const lock of [before, other, late, new KeyedLock({ name: 'later' })]) {
      await waitsWithin(lock, 'short', 1);
      await waitsWithin(lock, 'long', 400);
    }
    expect(shown(await profiler.stop())).toEqual(
      ['wanted', 'late'].map((lock) => ({ lock, key: '"long"', kind: 'async', outcome: 'granted' })),
    );
  });

  it('records short waits in proportion, so that the sums stay right', async () => {
    const lock = new KeyedLock({ name: 'sampled' });
    const profiler = await start({ threshold: 0, sample: 20 });
    let sum = 0;
    for (let i = 0; i < 1000; i++) {
      const guard = lock.acquireSync('key');
      const since = performance.now();
      const next = lock.acquire('key');
      const end = since + 1;
      while (performance.now() < end);
      guard.release();
      (await next).release();
      sum += performance.now() - since;
    }
    const { waits } = await profiler.stop();
    // One for each 20 ms.
    expect(waits.length).toBeLessThan(20 + (1.6 * sum) / 20);
    const estimate = waits.reduce((total, { waited, weight }) => total + waited * weight, 0);
    // About 50 of them: six standard deviations.
    expect(estimate / sum).toBeGreaterThan(0.2);
    expect(estimate / sum).toBeLessThan(1.8);
  });

  it('shows the profile so far, and does not change after the end', async () => {
    const lock = new KeyedLock();
    const profiler = await start();
    await waitsWithin(lock, 1, 5);
    const first = profiler.snapshot();
    await waitsWithin(lock, 2, 5);
    const last = await profiler.stop();
    await waitsWithin(lock, 3, 5);
    expect(first.waits.map(({ key }) => key)).toEqual(['1']);
    expect(first.summary()).not.toContain(' 2\n');
    expect(last.summary()).toContain(' 2\n');
    expect(last.waits.map(({ key }) => key)).toEqual(['1', '2']);
    expect((await profiler.stop()).waits).toEqual(last.waits);
    expect(profiler.snapshot().waits).toEqual(last.waits);
    expect(last.duration).toBeGreaterThan(first.duration);
  });

  it.each([
    ['stop', 'awaited'],
    ['stop', 'blocked'],
    ['snapshot', 'awaited'],
    ['snapshot', 'blocked'],
  ] as const)('%s() includes a wait of its thread that has just ended, %s', async (end, how) => {
    const lock = new KeyedLock();
    const cells = new Int32Array(new SharedArrayBuffer(8));
    const thread = startThread('hold-until.mjs', { handle: lock.handle, cells: cells.buffer });
    thread.postMessage({ keys: ['blocked'], mode: 'exclusive' });
    await until(() => Atomics.load(cells, 0) === 1, 'the thread holds a key');
    const guard = lock.acquireSync('awaited');
    const profiler = await start({ threshold: 0, sample: 1e-6 });
    if (how === 'blocked') thrownBy(() => lock.acquireSync('blocked', { timeout: 1 }));
    else {
      const next = lock.acquire('awaited');
      guard.release();
      (await next).release();
    }
    const { waits } = end === 'stop' ? await profiler.stop() : profiler.snapshot();
    expect(waits).toMatchObject([{ key: `"${how}"`, releases: how === 'awaited' ? [{ threadId }] : [] }]);
    expect(waits[0]!.frames[0]).toContain('profiler.test.ts');
  });

  it.each(['returns', 'exits', 'throws'])('has the waits of a thread that %s at once', async (end) => {
    const lock = new KeyedLock({ name: 'ended' });
    const guard = lock.acquireSync('k');
    const profiler = await start({ threshold: 0, sample: 1e-6 });
    const thread = startThread('wait-and-end.mjs', { handle: lock.handle, end });
    thread.on('error', () => undefined);
    // `once` of `node:events` would reject with the error of the thread.
    await new Promise((resolve) => thread.once('exit', resolve));
    guard.release();
    const wait = { lock: 'ended', key: '"k"', kind: 'sync', outcome: 'timeout' };
    const profile = await profiler.stop();
    expect(shown(profile)).toEqual([wait, wait, wait]);
    for (const { frames } of profile.waits) expect(frames[0]).toContain('waitsInThread');
  });

  it('is taken by one at a time, and ends with the thread that takes it', async () => {
    const profiler = await start();
    await expect(profileContention()).rejects.toMatchObject({ name: 'LockError', code: 'ERR_LOCK_PROFILE' });
    await profiler.stop();
    const url = import.meta.resolve('stripelock/profile');
    const code = `import(${JSON.stringify(url)}).then(({ profileContention }) => profileContention())
      .then(() => require('node:worker_threads').parentPort.postMessage('on'));`;
    const thread = new Worker(code, { eval: true });
    onTestFinished(async () => {
      await thread.terminate();
    });
    // Both may come in one turn.
    const ended = once(thread, 'exit');
    await once(thread, 'message');
    await ended;
    await (await start()).stop();
  });

  it('runs no code of the program when it writes stacks out', async () => {
    const lock = new KeyedLock();
    const prepare = Reflect.get(Error, 'prepareStackTrace') as unknown;
    let calls = 0;
    Reflect.set(Error, 'prepareStackTrace', () => {
      calls++;
      return 'odd';
    });
    try {
      const profiler = await start();
      await waitsWithin(lock, 1, 5);
      await waitsForThread(lock, 'far', 300);
      const { waits } = await profiler.stop();
      expect(calls).toBe(0);
      expect(waits.length).toBe(2);
      for (const { frames } of waits) expect(frames[0]).toContain('profiler.test.ts');
    } finally {
      Reflect.set(Error, 'prepareStackTrace', prepare);
    }
  });

  it('refuses bad options', async () => {
    const refused = async (options: unknown): Promise<unknown> =>
      profileContention(options as ContentionProfileOptions).then(
        () => undefined,
        (error: unknown) => (error as { code?: string }).code,
      );
    for (const options of [null, [], 1, { lock: ['a'] }, { locks: 'a' }, { locks: [1] }, { sample: '1' }])
      expect(await refused(options), JSON.stringify(options)).toBe('ERR_INVALID_ARG_TYPE');
    for (const options of [{ threshold: -1 }, { threshold: Infinity }, { sample: 0 }, { sample: NaN }])
      expect(await refused(options), JSON.stringify(options)).toBe('ERR_OUT_OF_RANGE');
    await start(undefined);
  });

  it('reads each name once, and throws the error of a getter', async () => {
    const failing = (reads: number): string[] => {
      let left = reads;
      return Object.defineProperty(['wanted', 'other'], 1, {
        get: () => {
          if (left-- > 0) return 'second';
          throw new EvalError('of the getter');
        },
      });
    };
    await expect(profileContention({ locks: failing(0) })).rejects.toThrow(EvalError);
    // None is being taken.
    const profiler = await start({ locks: failing(1) });
    await waitsWithin(new StripedLock({ name: 'second' }), 'key', 5);
    expect(shown(await profiler.stop())).toMatchObject([{ lock: 'second' }]);
  });

  it('does not abort where a list of names throws in the addon', () => {
    const names = Object.defineProperty(['wanted'], 0, {
      get: () => {
        throw new EvalError('of the getter');
      },
    });
    expect(() => loadAddon().startProfile(0, 1, names)).toThrow(EvalError);
  });
});
