import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { existsSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { KeyedLock } from 'stripelock';
import { collect } from 'stripelock/metrics';
import { ProcessLock, type ProcessLockOptions } from 'stripelock/process';
import { profileContention } from 'stripelock/profile';
import { listen, messagesOf } from '../support/channels.js';
import { copyForTest } from '../support/package-copy.js';
import { runProgram } from '../support/programs.js';
import { startThread } from '../support/threads.js';
import { thrownBy, until, watch } from '../support/waiting.js';
import { lockPath, Peer } from './peer.js';

// A lock of a file shows the same of itself as the other locks, and the holders and waiters of other processes.

function makeLock(options: Partial<ProcessLockOptions> = {}): ProcessLock {
  const lock = new ProcessLock({ path: lockPath(), timeout: 20_000, ...options });
  onTestFinished(() => lock.close());
  return lock;
}

describe('what other processes hold or wait for', () => {
  it('is shown by stateOf() and isLocked(), but does not count in stats(), nor for drained()', async () => {
    const lock = makeLock();
    const peer = await Peer.start(lock.path);
    const free = { free: true, mode: undefined, holders: 0, waiters: 0, permitsLeft: 1 };
    expect(lock.stateOf('a')).toEqual(free);
    await peer.ask('acquire', 'a');
    expect(lock.stateOf('a')).toEqual({
      ...free,
      free: false,
      mode: 'exclusive',
      holders: 1,
      permitsLeft: 0,
    });
    expect(lock.isLocked('a')).toBe(true);
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    await lock.drained({ timeout: 0 });

    const waiting = watch(lock.acquire('a'));
    await until(() => lock.stateOf('a').waiters === 1, 'this process waits');
    expect(lock.stateOf('a')).toMatchObject({ mode: 'exclusive', holders: 1, waiters: 1 });
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 1, contended: 1 });
    const drained = watch(lock.drained());
    await peer.ask('releaseAll');
    const guard = await waiting.promise;
    expect(lock.stats()).toMatchObject({ held: 1, waiting: 0 });
    const next = peer.ask('acquire', 'a');
    await until(() => lock.stateOf('a').waiters === 1, 'the other process waits');
    expect(lock.stateOf('a')).toMatchObject({ mode: 'exclusive', holders: 1, waiters: 1 });
    expect(drained.state).toBe('pending');
    guard.release();
    await drained.promise;
    await next;
    await peer.ask('releaseAll');
    expect(lock.stateOf('a')).toEqual(free);
  });

  it('counts once for each process that shares a key, besides all holders of this one', async () => {
    const lock = makeLock();
    const peers = await Promise.all([Peer.start(lock.path), Peer.start(lock.path)]);
    const shared = { mode: 'shared' } as const;
    for (const peer of peers) await peer.ask('acquire', 'a', shared);
    expect(lock.stateOf('a')).toMatchObject({ free: false, mode: 'shared', holders: 2, permitsLeft: 0 });
    const own = [lock.acquireSync('a', shared), lock.acquireSync('a', shared)];
    expect(lock.stateOf('a')).toMatchObject({ mode: 'shared', holders: 4 });
    for (const guard of own) guard.release();
    expect(lock.stateOf('a')).toMatchObject({ mode: 'shared', holders: 2 });
  });

  it('is known of a key that is too long to be shown', async () => {
    const lock = makeLock();
    const peer = await Peer.start(lock.path);
    const long = 'x'.repeat(500);
    await peer.ask('acquire', long);
    expect(lock.stateOf(long)).toMatchObject({ free: false, mode: 'exclusive', holders: 1 });
    expect(lock.isLocked(`${long}y`)).toBe(false);
    expect(() => lock.acquireSync(long, { timeout: 1 })).toThrow(`(held by process ${peer.pid}, `);
  });
});

describe('a lock with trace', () => {
  it('names the line of the program that acquired', async () => {
    const { code, stderr } = await runProgram('traced-process-places.mjs', [lockPath()]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  it('shows in errors where a key was acquired', async () => {
    const lock = makeLock({ trace: true });
    const acquiredHere = (): void => void lock.acquireSync('a');
    acquiredHere();
    const place = /acquired at .*acquiredHere/;
    await expect(lock.acquire('a', { timeout: 1 })).rejects.toThrow(place);
    expect(() => lock.acquireSync('a')).toThrow(place);
    // Another lock of the file need not trace.
    expect(() => makeLock({ path: lock.path }).acquireSync(['b', 'a'])).toThrow(place);
  });

  it('releases a guard that was garbage-collected, and warns', async () => {
    const { code, stderr } = await runProgram('lost-process-guard.mjs', [lockPath()], ['--expose-gc']);
    expect(stderr).toContain('a guard of "mine" was garbage-collected while held');
    expect(code).toBe(0);
  });
});

describe.each([
  ['its path', ''],
  ['its name', 'mine'],
] as const)('a lock has %s', (_label, mine) => {
  // The counters of a closed lock stay.
  const nameOf = (suffix: string): string => mine && `${mine}, ${suffix}`;

  it('in messages on channels', async () => {
    const name = nameOf('channels');
    const lock = makeLock({ name });
    const shown = name === '' ? lock.path : name;
    const spans = messagesOf<{ lock: string; keys: unknown; kind: string }>(
      'tracing:stripelock:acquire:start',
    );
    const heard = listen('wait', 'timeout', 'deadlock');
    const guard = await lock.acquire('a');
    lock.tryAcquire('b')!.release();
    await expect(lock.acquire('a', { timeout: 1 })).rejects.toThrow();
    thrownBy(() => lock.acquireSync('a'));
    const next = lock.withLock('a', () => 1);
    guard.release();
    expect(await next).toBe(1);
    expect(spans.map(({ lock: of, keys, kind }) => [of, keys, kind])).toEqual(
      [
        ['a', 'async'],
        ['b', 'sync'],
        ['a', 'async'],
        ['a', 'sync'],
        ['a', 'async'],
      ].map(([key, kind]) => [shown, [key], kind]),
    );
    expect(heard.map(([channel, { lock: of, outcome }]) => [channel, of, outcome])).toEqual([
      ['wait', shown, 'timeout'],
      ['timeout', shown, undefined],
      ['deadlock', shown, undefined],
      ['wait', shown, 'granted'],
    ]);
  });

  it('in metrics, which count all threads', async () => {
    const name = nameOf('metrics');
    collect();
    const lock = makeLock({ name });
    const metrics = (): object | undefined =>
      collect().find(({ name: of }) => of === (name === '' ? lock.path : name));
    const thread = startThread('process-lock-thread.mjs', { path: lock.path, key: 'theirs' });
    await new Promise((resolve) => thread.once('message', resolve));
    const guard = lock.acquireSync('a');
    await expect(lock.acquire('a', { timeout: 1 })).rejects.toThrow();
    const abort = new AbortController();
    const aborted = watch(lock.acquire('a', { signal: abort.signal }));
    expect(metrics()).toMatchObject({ locks: 1, held: 2, waiting: 1, timeouts: 1, aborts: 0 });
    abort.abort();
    await until(() => aborted.state !== 'pending', 'aborted');
    thrownBy(() => lock.acquireSync('a'));
    await thread.terminate();
    (await lock.acquire('theirs')).release();
    guard.release();
    expect(metrics()).toMatchObject({ held: 0, waiting: 0, aborts: 1, deadlocks: 1, abandoned: 1 });
    expect(lock.stats()).toMatchObject({ timeouts: 1, aborts: 1, deadlocks: 1, abandoned: 1 });
  });

  it('in a profile, with the calls of the program that waited and released', async () => {
    const name = nameOf('profile');
    const lock = makeLock({ name });
    const profiler = await profileContention();
    const waitsHere = async (): Promise<void> => {
      const guard = lock.acquireSync('a');
      const next = lock.acquire('a');
      await new Promise((resolve) => setTimeout(resolve, 20));
      guard.release();
      (await next).release();
    };
    await waitsHere();
    const { waits } = await profiler.stop();
    expect(waits).toMatchObject([
      { lock: name === '' ? lock.path : name, key: '"a"', kind: 'async', outcome: 'granted' },
    ]);
    expect(waits[0]!.frames[0]).toContain('waitsHere');
    expect(waits[0]!.releases[0]!.frames[0]).toContain('waitsHere');
  });
});

describe('a profile', () => {
  const everyWait = { threshold: 0, sample: 1e-6 };

  it.each([undefined, 3])(
    'has the pid and the title of other processes that held the key, limit %s',
    async (limit) => {
      const lock = makeLock(limit === undefined ? {} : { limit });
      const peers = await Promise.all(
        Array.from({ length: limit ?? 1 }, () => Peer.start(lock.path, undefined, limit)),
      );
      for (const peer of peers) await peer.ask('acquire', 'a');
      const profiler = await profileContention(everyWait);
      await expect(lock.acquire('a', { timeout: 1 })).rejects.toThrow();
      const waiting = lock.acquire('a');
      await until(() => lock.stats().waiting === 1, 'this process waits');
      await peers[0]!.ask('releaseAll');
      (await waiting).release();
      const { waits } = await profiler.stop();
      expect(waits.map(({ outcome, releases }) => [outcome, releases])).toEqual([
        ['timeout', []],
        ['granted', []],
      ]);
      for (const { processes } of waits) {
        expect(new Set(processes.map(({ pid }) => pid))).toEqual(new Set(peers.map(({ pid }) => pid)));
        for (const { title } of processes) expect(title).toContain('process-lock-peer.mjs');
      }
      const slice = profiler
        .snapshot()
        .trace()
        .traceEvents.find(({ name, ph }) => ph === 'X' && name.startsWith('wait'));
      expect(slice?.args).toMatchObject({ processes: waits[0]!.processes });
    },
  );

  it.each([
    ['one key', 'a', 1],
    ['a list', ['a', 'b'], 1],
    ['a limit', 'a', 2],
  ] as const)(
    'reads the holders for waits whose stack it captures, and for blocking waits, %s',
    async (...row) => {
      const [, keys, limit] = row;
      const lock = makeLock({ limit });
      const peer = await Peer.start(lock.path, undefined, limit);
      for (let i = 0; i < limit; i++) await peer.ask('acquire', 'a');
      const profiler = await profileContention(everyWait);
      thrownBy(() => lock.acquireSync(keys, { timeout: 1 }));
      // At most one stack is captured per 0.1 ms.
      const since = performance.now();
      const late = Array.from({ length: 100 }, () => lock.acquire(keys, { timeout: 1 }));
      const most = 1 + Math.ceil((performance.now() - since) / 0.1);
      expect((await Promise.allSettled(late)).every(({ status }) => status === 'rejected')).toBe(true);
      const { waits } = await profiler.stop();
      const read = waits.filter(({ processes }) => processes.length > 0);
      expect(read).toEqual(waits.filter(({ frames }) => frames.length > 0));
      expect(new Set(read.map(({ kind }) => kind))).toEqual(new Set(['sync', 'async']));
      expect(read.filter(({ kind }) => kind === 'async').length).toBeLessThanOrEqual(most);
      for (const { processes } of read) {
        expect(processes.length).toBeGreaterThan(0);
        for (const { pid } of processes) expect(pid).toBe(peer.pid);
      }
    },
  );

  it('names the key of a list that another process held, also on the channel', async () => {
    const lock = makeLock();
    const peer = await Peer.start(lock.path);
    await peer.ask('acquire', 'b');
    const published = messagesOf<{ key: unknown }>('stripelock:wait');
    const profiler = await profileContention(everyWait);
    // Whichever key has the lower stripe, one of these lists begins with a free stripe.
    for (const mode of ['exclusive', 'shared'] as const) {
      for (const keys of [
        ['a', 'b', 'c'],
        ['c', 'b'],
      ]) {
        await expect(lock.acquire(keys, { mode, timeout: 1 })).rejects.toThrow();
        thrownBy(() => lock.acquireSync(keys, { mode, timeout: 1 }));
      }
    }
    const { waits } = await profiler.stop();
    expect(published.map(({ key }) => key)).toEqual(Array(8).fill('b'));
    expect(waits.map(({ key }) => key)).toEqual(Array(8).fill('"b"'));
    // The stack may not be captured for waits that begin at nearly the same time.
    for (const { processes } of waits.filter(({ frames }) => frames.length > 0))
      expect(processes).toMatchObject([{ pid: peer.pid }]);
  });

  it.each(['exclusive', 'shared'] as const)(
    'has the release of the key of a list that this process held, %s',
    async (mode) => {
      const lock = makeLock();
      // `a` has a lower stripe than `b`.
      lock.acquireSync(['a', 'b']).release();
      const published = messagesOf<{ key: unknown }>('stripelock:wait');
      const profiler = await profileContention(everyWait);
      const guard = lock.acquireSync('b');
      const next = lock.acquire(['a', 'b'], { mode });
      await until(() => lock.stats().waiting === 1, 'the next acquisition waits');
      guard.release();
      (await next).release();
      const { waits } = await profiler.stop();
      expect(waits).toMatchObject([{ key: '"b"', processes: [], releases: [{ threadId: 0 }] }]);
      expect(published.map(({ key }) => key)).toEqual(['b']);
    },
  );

  it.each([
    ['a list', ['a', 'b'], 'exclusive', 1],
    ['shared mode', 'a', 'shared', 1],
    ['a limit', 'a', 'exclusive', 3],
  ] as const)('captures no stack for free keys, %s', async (_label, keys, mode, limit) => {
    const lock = makeLock({ limit });
    const captures = vi.spyOn(Error, 'captureStackTrace');
    onTestFinished(() => void vi.restoreAllMocks());
    const profiler = await profileContention(everyWait);
    const acquire = async (): Promise<void> => {
      (await lock.acquire(keys, { mode })).release();
      lock.acquireSync(keys, { mode }).release();
    };
    await acquire();
    expect(captures.mock.calls).toEqual([]);
    const guards = Array.from({ length: limit }, () => lock.acquireSync('a'));
    const waiting = acquire();
    expect(captures.mock.calls.length).toBe(1);
    for (const guard of guards) guard.release();
    await waiting;
    expect((await profiler.stop()).waits).toMatchObject([{ key: '"a"', processes: [] }]);
  });

  it('does not hide that a key of a list was abandoned', async () => {
    const lock = makeLock();
    const peer = await Peer.start(lock.path);
    await peer.ask('acquire', 'b');
    await peer.kill();
    const published = messagesOf<{ keys: unknown }>('stripelock:abandoned');
    const profiler = await profileContention(everyWait);
    const guard = await lock.acquire(['a', 'b']);
    await profiler.stop();
    expect(guard.abandoned).toBe(true);
    expect(published).toMatchObject([{ keys: ['a', 'b'] }]);
  });

  it('does not look for holders in a file that a subscriber has closed during the acquisition', async () => {
    const lock = makeLock();
    const profiler = await profileContention(everyWait);
    let closed: Promise<void> | undefined;
    const close = (): void => void (closed ??= lock.close());
    subscribe('tracing:stripelock:acquire:start', close);
    onTestFinished(() => void unsubscribe('tracing:stripelock:acquire:start', close));
    const error = await lock.acquire('a', { timeout: 1000 }).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(closed).toBeDefined();
    await closed;
    expect(String(error)).not.toContain('expected an open file');
    await profiler.stop();
  });

  it('has no process if a thread of this process held the key', async () => {
    const lock = makeLock();
    const peer = await Peer.start(lock.path);
    await peer.ask('acquire', 'other');
    const profiler = await profileContention(everyWait);
    const guard = await lock.acquire('a');
    const next = lock.acquire('a');
    await until(() => lock.stats().waiting === 1, 'the next acquisition waits');
    guard.release();
    (await next).release();
    expect((await profiler.stop()).waits).toMatchObject([{ processes: [], releases: [{ threadId: 0 }] }]);
  });
});

it('a refusal names no key of another lock that is part of the cycle', async () => {
  const lock = makeLock();
  const threads = new KeyedLock();
  // Its stripe has a key in the file, too.
  const own = threads.acquireSync('b');
  lock.acquireSync('b').release();
  const blockForA = async (): Promise<[unknown, number]> => {
    startThread('two-locks-cycle.mjs', { path: lock.path, handle: threads.handle });
    await until(() => threads.stats().waiting === 1, 'the thread waits');
    const [{ threadId: id } = { threadId: 0 }] = lock.inspect()[0]!.holders;
    try {
      lock.acquireSync('a').release();
    } catch (refused) {
      return [refused, id];
    }
    // The other thread was slow to look, and was refused in place of this one.
    return await blockForA();
  };
  const [error, id] = await blockForA();
  expect(String(error)).toContain(
    `thread 0 waits for key "a", which thread ${id} has, thread ${id} waits for a key of another lock, which thread 0 has.`,
  );
  own.release();
});

it('opens a file by its URL', () => {
  const path = `${lockPath()} ä%#`;
  const lock = makeLock({ path: pathToFileURL(path) });
  expect(lock.path).toBe(path);
  expect(existsSync(path)).toBe(true);
  lock.acquireSync('a');
  expect(makeLock({ path }).tryAcquire('a')).toBeUndefined();
  expect(() => makeLock({ path: new URL('http://host/file') })).toThrow(
    expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }),
  );
});

it('says so if the host shares no memory with the addon', async () => {
  const copy = await copyForTest({
    addon: 'link',
    changes: {
      'engine/native/process-locks.js': (text) => text.replace(/addon\.processOpen\(.*?\)/, 'undefined'),
    },
  });
  const { code, stdout } = await runProgram('process-lock-refused.mjs', [copy, lockPath()]);
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout:
      'ERR_LOCK_ENGINE this host does not let JavaScript share memory with the addon, which a ProcessLock needs\n',
  });
});

it('a process can use 65,536 keys of a file at once', () => {
  const lock = makeLock();
  const keys = Array.from({ length: 65_537 }, (_, i) => i);
  expect(() => lock.tryAcquire(keys)).toThrow(
    expect.objectContaining({
      code: 'ERR_LOCK_CAPACITY',
      message: expect.stringMatching(
        /no room for another key, as 65536 are in use in this process$/,
      ) as string,
    }),
  );
  expect(lock.inspect()).toEqual([]);
  lock.acquireSync(keys.slice(0, 1000)).release();
});
