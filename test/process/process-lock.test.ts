import {
  chmodSync,
  mkdirSync,
  renameSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  readdirSync,
} from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { MessageChannel, Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DeadlockError, LockError, LockTimeoutError, type LockKey } from 'stripelock';
import { ProcessGuard, ProcessLock, type ProcessLockOptions } from 'stripelock/process';
import { withoutMemory } from '../support/bytes.js';
import { revoked } from '../support/refusals.js';
import { lockPath } from './peer.js';

function makeLock(options: Partial<ProcessLockOptions> = {}): ProcessLock {
  const lock = new ProcessLock({ path: lockPath(), ...options });
  onTestFinished(() => lock.close());
  return lock;
}

/** The same lock, made again: what holds between them holds between threads. */
function again(lock: ProcessLock): ProcessLock {
  return makeLock({ path: lock.path });
}

describe('a lock of a file', () => {
  it('holds a key for one, or for several that share it', () => {
    const lock = makeLock();
    const other = again(lock);
    const guard = lock.acquireSync('a');
    expect(guard).toMatchObject({ keys: ['a'], mode: 'exclusive', held: true, abandoned: false });
    expect(guard).toBeInstanceOf(ProcessGuard);
    expect(other.tryAcquire('a')).toBeUndefined();
    expect(other.tryAcquire('b')?.held).toBe(true);
    guard.release();
    guard.release();
    expect(guard.held).toBe(false);
    const readers = [lock.tryAcquire('a', { mode: 'shared' }), other.tryAcquire('a', { mode: 'shared' })];
    expect(readers.map((reader) => reader?.mode)).toEqual(['shared', 'shared']);
    expect(lock.tryAcquire('a')).toBeUndefined();
    for (const reader of readers) reader?.release();
    expect(lock.tryAcquire('a')?.held).toBe(true);
  });

  it('knows strings, numbers and bytes apart, and takes the empty key without one', async () => {
    const lock = makeLock();
    const keys: LockKey[] = [
      1,
      '1',
      new Uint8Array([49]),
      'é',
      '\ud800',
      '\ud801',
      new Uint8Array(),
      2 ** 53 - 1,
    ];
    const guards = keys.map((key) => lock.tryAcquire(key));
    expect(guards.every((guard) => guard?.held)).toBe(true);
    const whole = await lock.acquire();
    expect(whole.keys).toEqual(['']);
    expect(lock.tryAcquire('')).toBeUndefined();
    expect(lock.tryAcquire()).toBeUndefined();
    expect(lock.tryAcquire(-0)?.keys).toEqual([-0]);
    expect(lock.tryAcquire(0)).toBeUndefined();
  });

  it('refuses bytes whose memory was detached or shrank, and does not take them for the empty key', async () => {
    const lock = makeLock();
    const refusal = expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }) as Error;
    for (const gone of withoutMemory()) {
      for (const keys of [gone, ['a', gone]]) {
        expect(() => lock.tryAcquire(keys)).toThrow(refusal);
        expect(() => lock.acquireSync(keys)).toThrow(refusal);
        await expect(lock.acquire(keys)).rejects.toThrow(refusal);
      }
    }
    expect(lock.tryAcquire(new Uint8Array())?.held).toBe(true);
  });

  it('takes several keys at once, or none', async () => {
    const lock = makeLock();
    const b = lock.acquireSync('b');
    expect(lock.tryAcquire(['a', 'b', 'c'])).toBeUndefined();
    const pending = lock.acquire(['c', 'b', 'a', 'b']);
    await sleep(5);
    b.release();
    const guard = await pending;
    expect(guard.keys).toEqual(['c', 'b', 'a', 'b']);
    for (const key of ['a', 'b', 'c']) expect(lock.tryAcquire(key)).toBeUndefined();
    guard.release();
    expect(lock.tryAcquire([])?.held).toBe(true);
    expect(lock.inspect()).toEqual([]);
  });

  it('runs functions with the keys held', async () => {
    const lock = makeLock();
    const held = (key = ''): boolean => lock.tryAcquire(key) === undefined;
    expect(await lock.withLock(async (guard) => (await sleep(1), [guard.held, held()]))).toEqual([
      true,
      true,
    ]);
    expect(await lock.withLock('a', () => held('a'))).toBe(true);
    expect(await lock.withLock('a', { mode: 'shared' }, (guard) => guard.mode)).toBe('shared');
    expect(lock.withLockSync(() => held())).toBe(true);
    expect(lock.withLockSync('a', () => held('a'))).toBe(true);
    expect(lock.withLockSync(['a', 'b'], { timeout: 10 }, () => held('b'))).toBe(true);
    const failure = new Error('of the program');
    await expect(lock.withLock('a', () => Promise.reject(failure))).rejects.toBe(failure);
    expect(() =>
      lock.withLockSync('a', () => {
        throw failure;
      }),
    ).toThrow(failure);
    expect(() => lock.withLockSync('a', (() => Promise.resolve(1)) as never)).toThrow(/use withLock/);
    expect(lock.inspect()).toEqual([]);
  });

  it('gives back at the end of a block', async () => {
    const lock = makeLock();
    {
      using guard = await lock.acquire('a');
      expect(guard.held).toBe(true);
    }
    expect(lock.inspect()).toEqual([]);
  });

  it('issues tokens that rise', () => {
    const lock = makeLock();
    let last = BigInt(Date.now() - 1000) * 1_000_000n;
    for (let i = 0; i < 1000; i++) {
      const guard = (i % 2 === 0 ? lock : again(lock)).acquireSync(i % 3);
      expect(guard.token).toBeGreaterThan(last);
      last = guard.token;
      guard.release();
      if (i > 20) i += 49;
    }
  });

  it('ends a wait at its deadline, and names the holder', async () => {
    const lock = makeLock({ name: 'mine', timeout: 30 });
    const guard = lock.acquireSync('a');
    const start = performance.now();
    const error: unknown = await lock.acquire(['b', 'a']).catch((reason: unknown) => reason);
    expect(performance.now() - start).toBeGreaterThan(28);
    expect(error).toBeInstanceOf(LockTimeoutError);
    expect(error).toMatchObject({
      code: 'ERR_LOCK_TIMEOUT',
      keys: ['b', 'a'],
      timeout: 30,
      stripe: -1,
      holders: [0],
    });
    expect(String(error)).toContain(
      `lock "mine", file ${JSON.stringify(lock.path)}: could not acquire keys "b", "a" within 30 ms (held by thread 0 of this`,
    );
    await expect(lock.acquire('a', { timeout: 0 })).rejects.toThrow(LockTimeoutError);
    expect(() => lock.acquireSync('a', { timeout: 0 })).toThrow(LockTimeoutError);
    guard.release();
    expect(lock.inspect()).toEqual([]);
  });

  it('ends a wait by a signal', async () => {
    const lock = makeLock();
    const guard = lock.acquireSync('a');
    const controller = new AbortController();
    const pending = lock.acquire('a', { signal: controller.signal });
    const reason = new Error('not needed any more');
    controller.abort(reason);
    await expect(pending).rejects.toBe(reason);
    await expect(lock.acquire('b', { signal: controller.signal })).rejects.toBe(reason);
    guard.release();
    expect(lock.inspect()).toEqual([]);
  });

  it('grants in the order of arrival', async () => {
    const lock = makeLock();
    const guard = lock.acquireSync('a');
    const order: number[] = [];
    const all = Array.from({ length: 50 }, (_, i) =>
      lock.acquire('a').then((next) => {
        order.push(i);
        next.release();
      }),
    );
    guard.release();
    await Promise.all(all);
    expect(order).toEqual([...order.keys()]);
  });

  it('refuses to block for what its own thread holds', () => {
    const lock = makeLock();
    const guard = lock.acquireSync('a');
    expect(() => again(lock).acquireSync('a')).toThrow(DeadlockError);
    guard.release();
    lock.acquireSync('a').release();
  });

  it('lets a blocked thread overtake acquisitions of its event loop', async () => {
    const lock = makeLock();
    const guard = lock.acquireSync('a');
    const pending = lock.acquire('a');
    guard.release();
    // Granted to the event loop, which cannot take it now.
    const own = lock.acquireSync('a', { timeout: 1000 });
    own.release();
    (await pending).release();
  });

  it('closes: what waits is refused, and what is held stays held', async () => {
    const lock = makeLock();
    const guard = lock.acquireSync('a');
    const pending = lock.acquire('a');
    await Promise.all([lock.close(), lock.close()]);
    await expect(pending).rejects.toMatchObject({ code: 'ERR_LOCK_CLOSED' });
    await expect(lock.acquire('b')).rejects.toMatchObject({ code: 'ERR_LOCK_CLOSED' });
    expect(() => lock.acquireSync('b')).toThrow(LockError);
    expect(() => lock.inspect()).toThrow(/was closed/);
    const other = again(lock);
    expect(other.tryAcquire('a')).toBeUndefined();
    guard.release();
    expect(other.tryAcquire('a')?.abandoned).toBe(false);
    const disposed = again(lock);
    await disposed[Symbol.asyncDispose]();
    expect(() => disposed.tryAcquire('b')).toThrow(LockError);
  });

  it('shows the holders and the waiters', async () => {
    const lock = makeLock();
    const before = Date.now();
    const guard = lock.acquireSync('a');
    const pending = lock.acquire('a', { mode: 'shared' });
    lock.tryAcquire(7, { mode: 'shared' });
    const me = { pid: process.pid, threadId: 0, title: expect.any(String) as string };
    const states = lock.inspect().sort((x, y) => String(y.key).localeCompare(String(x.key)));
    expect(states).toMatchObject([
      { key: 'a', mode: 'exclusive', holders: [me], waiters: [me] },
      { key: 7, mode: 'shared', holders: [me], waiters: [] },
    ]);
    expect(states[0]!.holders[0]!.since).toBeGreaterThan(before - 1000);
    guard.release();
    (await pending).release();
  });

  it('belongs to its thread: posting it, or a guard, is refused', () => {
    const lock = makeLock();
    const { port1, port2 } = new MessageChannel();
    onTestFinished(() => {
      port1.close();
      port2.close();
    });
    for (const value of [lock, lock.acquireSync('a'), { nested: [lock.acquireSync('b')] }]) {
      const refused: unknown = expect.objectContaining({
        name: 'DataCloneError',
        message: expect.stringMatching(
          /belongs to its thread: pass .*path.*, and create a ProcessLock .*there/s,
        ) as string,
      });
      expect(() => structuredClone(value)).toThrow(refused);
      expect(() => port1.postMessage(value)).toThrow(refused);
    }
  });

  it('shows its state, and a guard’s state, on the console', async () => {
    const lock = makeLock({ name: 'mine' });
    const guard = lock.acquireSync(['a', 7]);
    const pending = lock.acquire('a');
    expect(inspect(lock)).toMatch(/^ProcessLock \{/);
    for (const part of [
      `path: '${lock.path}'`,
      "name: 'mine'",
      'timeout: 5000',
      'closed: false',
      'pending: 1',
    ])
      expect(inspect(lock, { breakLength: Infinity })).toContain(part);
    expect(inspect(guard)).toMatch(
      /^ProcessGuard \{\s*keys: \[ 'a', 7 \],\s*mode: 'exclusive',\s*held: true,/,
    );
    guard.release();
    (await pending).release();
    await lock.close();
    expect(inspect(guard)).toContain('held: false');
    expect(inspect(lock)).toContain('closed: true');
  });

  it('forgets an acquisition whose signal throws', async () => {
    const lock = makeLock();
    using _held = lock.acquireSync('a');
    const signal = new AbortController().signal;
    signal.addEventListener = () => {
      throw new Error('no listener');
    };
    await expect(lock.acquire('a', { signal })).rejects.toThrow('no listener');
    expect(inspect(lock)).toContain('pending: 0');
  });

  it('names its file in each error', async () => {
    const lock = makeLock();
    const named = makeLock({ path: lock.path, name: 'mine' });
    const file = JSON.stringify(lock.path);
    const guard = lock.acquireSync('a');
    expect(() => lock.acquireSync('a', { timeout: 0 })).toThrow(
      `lock file ${file}: could not acquire key "a"`,
    );
    expect(() => named.acquireSync('a', { timeout: 0 })).toThrow(`lock "mine", file ${file}: could not`);
    guard.release();
    const pending = named.acquire('a').then(() => named.acquire('a'));
    await sleep(1);
    await named.close();
    await expect(pending).rejects.toThrow(`lock "mine", file ${file} was closed`);
    await lock.close();
    expect(() => lock.tryAcquire('a')).toThrow(`lock file ${file} was closed`);
  });

  it('never acquires in the file of another lock, if its keys close it while they are read', async () => {
    const other = lockPath();
    const lock = makeLock();
    let opened: ProcessLock | undefined;
    /** Gives its number to another file. */
    const reopen = (): string => {
      void lock.close();
      opened ??= makeLock({ path: other });
      return 'a';
    };
    const keys = Object.defineProperty(['a'], 0, { get: reopen });
    expect(() => lock.acquireSync(keys)).toThrow(/was closed/);
    expect(opened!.inspect()).toEqual([]);
    await opened!.close();
    for (const method of ['tryAcquire', 'acquire', 'acquireSync'] as const) {
      const closing = makeLock();
      let next: ProcessLock | undefined;
      const closer = Object.defineProperty(['a'], 0, {
        get() {
          void closing.close();
          next ??= makeLock();
          return 'a';
        },
      });
      await expect((async () => closing[method](closer))()).rejects.toMatchObject({
        code: 'ERR_LOCK_CLOSED',
      });
      expect(next!.inspect()).toEqual([]);
    }
  });

  it('says which keys and threads would wait for each other for ever', async () => {
    const lock = makeLock({ name: 'mine' });
    const file = JSON.stringify(lock.path);
    const own = lock.acquireSync('a');
    expect(() => lock.acquireSync(['b', 'a'])).toThrow(
      `lock "mine", file ${file}: waiting for keys "b", "a" would never end: this same thread (0) holds key "a", by a guard`,
    );
    const blockForB = async (): Promise<[unknown, number]> => {
      const worker = new Worker(new URL('../workers/process-lock-cycle.mjs', import.meta.url), {
        workerData: { path: lock.path, holds: 'b', wants: 'a' },
      });
      onTestFinished(() => void worker.terminate());
      await new Promise((resolve) => worker.once('message', resolve));
      while (lock.inspect().every(({ waiters }) => waiters.length === 0)) await sleep(1);
      const id = worker.threadId;
      try {
        lock.acquireSync('b').release();
      } catch (refused) {
        return [refused, id];
      }
      // The other thread was slow to look, and was refused in place of this one.
      return await blockForB();
    };
    const [error, id] = await blockForB();
    expect(error).toBeInstanceOf(DeadlockError);
    expect(error).toMatchObject({ keys: ['b'], threads: [0, id] });
    expect(String(error)).toContain(
      `thread 0 waits for key "b", which thread ${id} has, thread ${id} waits for key "a", which thread 0 has. Acquire all`,
    );
    own.release();
  });

  it('reports a thread that ended to the next holder', async () => {
    const lock = makeLock();
    const worker = new Worker(new URL('../workers/process-lock-thread.mjs', import.meta.url), {
      workerData: { path: lock.path, key: 'a' },
    });
    await new Promise((resolve) => worker.once('message', resolve));
    expect(lock.tryAcquire('a')).toBeUndefined();
    const pending = lock.acquire('a');
    await worker.terminate();
    const guard = await pending;
    expect(guard.abandoned).toBe(true);
    guard.release();
    expect(lock.tryAcquire('a')?.abandoned).toBe(false);
  });
});

describe('bad arguments', () => {
  it.each([
    ['tryAcquire', 'timeout', 5],
    ['tryAcquire', 'signal', AbortSignal.abort()],
    ['tryAcquire', 'ifAvailable', true],
    ['acquireSync', 'signal', AbortSignal.abort()],
    ['acquireSync', 'ifAvailable', true],
    ['acquire', 'ifAvailable', true],
  ] as const)('%s refuses the option %s, which has no meaning for it', async (method, name, value) => {
    const lock = makeLock();
    const refused: unknown = await (async () => lock[method]('a', { [name]: value }))().catch(
      (error: unknown) => error,
    );
    expect(refused).toBeInstanceOf(TypeError);
    expect(refused).toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringContaining(`options.${name} is not an option`) as string,
    });
    expect(lock.inspect()).toEqual([]);
  });

  it.each([
    [undefined, 'ERR_INVALID_ARG_TYPE'],
    [{}, 'ERR_INVALID_ARG_TYPE'],
    [{ path: '' }, 'ERR_INVALID_ARG_TYPE'],
    [{ path: 'a\0b' }, 'ERR_INVALID_ARG_TYPE'],
    [{ path: 7 }, 'ERR_INVALID_ARG_TYPE'],
    [{ path: 'a', nmae: '' }, 'ERR_INVALID_ARG_TYPE'],
    [{ path: 'a', timeout: -1 }, 'ERR_OUT_OF_RANGE'],
  ])('%j', (options, code) => {
    expect(() => new ProcessLock(options as never)).toThrow(expect.objectContaining({ code }));
  });

  it.each([null, 1.5, Symbol('a'), {}, [1, null]])('key %s', async (key) => {
    const lock = makeLock();
    expect(() => lock.acquireSync(key as never)).toThrow(/ERR_|must be/);
    await expect(lock.acquire(key as never)).rejects.toThrow(/must be/);
    expect(() => lock.tryAcquire('a', { mode: 'both' as never })).toThrow(TypeError);
    expect(() => lock.acquireSync('a', { timeuot: 1 } as never)).toThrow(/did you mean/);
  });

  it.each(['acquire', 'acquireSync', 'tryAcquire'] as const)('a revoked proxy, by %s', async (method) => {
    const refused = (async () => makeLock()[method](revoked([]) as never))();
    await expect(refused).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
  });
});

describe('a file that cannot be used', () => {
  const codeOf = (file: string): unknown => {
    try {
      void new ProcessLock({ path: file }).close();
      return 'none';
    } catch (error) {
      expect(error).toBeInstanceOf(LockError);
      return (error as LockError).code;
    }
  };

  it('is refused with a code', async () => {
    const file = lockPath();
    const folder = path.dirname(file);
    expect(codeOf(folder)).toBe('ERR_LOCK_FILE_KIND');
    expect(codeOf(path.join(folder, 'none', 'lock'))).toBe('ERR_LOCK_FILE_OPEN');
    writeFileSync(path.join(folder, 'text'), 'something else');
    expect(codeOf(path.join(folder, 'text'))).toBe('ERR_LOCK_FILE_FOREIGN');
    await makeLock({ path: file }).close();
    symlinkSync(file, path.join(folder, 'link'));
    expect(codeOf(path.join(folder, 'link'))).toBe('ERR_LOCK_FILE_KIND');
    truncateSync(file, 50);
    expect(codeOf(file)).toBe('ERR_LOCK_FILE_FOREIGN');
    mkdirSync(path.join(folder, 'shut'));
    chmodSync(path.join(folder, 'shut'), 0o500);
    if (process.getuid?.() !== 0)
      expect(codeOf(path.join(folder, 'shut', 'lock'))).toBe('ERR_LOCK_FILE_OPEN');
  });

  it('is one of several if its creator asked for that, and other numbers are refused', async () => {
    const file = lockPath();
    const lock = makeLock({ path: file, files: 4 });
    expect(
      readdirSync(path.dirname(file))
        .filter((name) => name.startsWith(path.basename(file)))
        .sort(),
    ).toEqual(['', '.1', '.2', '.3'].map((end) => path.basename(file) + end));
    const keys = Array.from({ length: 40 }, (_, i) => `key ${i}`);
    const guard = lock.acquireSync(keys);
    const other = makeLock({ path: file });
    for (const key of keys) expect(other.tryAcquire(key)).toBeUndefined();
    expect(other.inspect()).toHaveLength(40);
    guard.release();
    expect(() => new ProcessLock({ path: file, files: 5 })).toThrow(
      expect.objectContaining({
        code: 'ERR_LOCK_FILE_COUNT',
        message: expect.stringContaining('it was created with `files: 4`') as string,
      }),
    );
    for (const files of [0, 65, 1.5, NaN]) {
      expect(() => new ProcessLock({ path: file, files })).toThrow(RangeError);
    }
    expect(() => new ProcessLock({ path: file, files: '4' as never })).toThrow(TypeError);
    await Promise.all([lock.close(), other.close()]);
    expect(codeOf(file)).toBe('none');
  });

  it.each(['deleted', 'replaced'])('is noticed when it was %s', async (how) => {
    const lock = makeLock();
    const guard = lock.acquireSync('a');
    const pending = lock.acquire('a');
    if (how === 'deleted') unlinkSync(lock.path);
    else renameSync(lock.path, `${lock.path}.away`);
    await sleep(150);
    expect(() => lock.tryAcquire('b')).toThrow(expect.objectContaining({ code: 'ERR_LOCK_FILE_REPLACED' }));
    guard.release();
    await expect(pending).rejects.toMatchObject({ code: 'ERR_LOCK_FILE_REPLACED' });
    const fresh = makeLock({ path: lock.path });
    expect(fresh.tryAcquire('a')?.held).toBe(true);
  });

  it('keeps working after it was truncated', () => {
    const lock = makeLock();
    const guard = lock.acquireSync('a');
    truncateSync(lock.path, 4096);
    expect(lock.tryAcquire('a')).toBeUndefined();
    expect(lock.tryAcquire('b')?.held).toBe(true);
    guard.release();
    expect(lock.tryAcquire('a')?.held).toBe(true);
  });
});
