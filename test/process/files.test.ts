import { execFileSync } from 'node:child_process';
import {
  closeSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { LockError } from 'stripelock';
import { ProcessLock, type ProcessLockOptions } from 'stripelock/process';
import { copyForTest } from '../support/package-copy.js';
import { runProgram } from '../support/programs.js';
import { lockPath, Peer, type Got } from './peer.js';

const KEYS = Array.from({ length: 40 }, (_, i) => `key ${i}`);

function makeLock(options: ProcessLockOptions): ProcessLock {
  const lock = new ProcessLock(options);
  onTestFinished(() => lock.close());
  return lock;
}

/** Opens the file in a new process: the code of the error, or the number of keys that it got. */
async function newcomer(file: string, files?: number): Promise<string | number> {
  try {
    const peer = await Peer.start(file, files);
    const got = await Promise.all(KEYS.map((key) => peer.ask<Got | undefined>('tryAcquire', key)));
    await peer.kill();
    return got.filter((guard) => guard !== undefined).length;
  } catch (error) {
    return (error as LockError).code;
  }
}

/** A process that holds all keys, spread over `files` files. */
async function holder(files: number): Promise<{ file: string; peer: Peer }> {
  const file = lockPath();
  const peer = await Peer.start(file, files);
  await peer.ask('acquire', KEYS);
  return { file, peer };
}

function overwrite(file: string, at: number, bytes: Uint8Array): void {
  const opened = openSync(file, 'r+');
  writeSync(opened, bytes, 0, bytes.length, at);
  closeSync(opened);
}

describe('a key of several files has one holder', () => {
  it.each([0, 10, 4096])('after the file was cut to %i bytes', async (bytes) => {
    const { file, peer } = await holder(16);
    truncateSync(file, bytes);
    expect(await newcomer(file, 4)).toMatch(/^ERR_LOCK_FILE_(DAMAGED|COUNT)$/);
    expect([0, 'ERR_LOCK_FILE_DAMAGED']).toContain(await newcomer(file));
    await peer.kill();
    truncateSync(file, 0);
    expect(await newcomer(file, 4)).toBe(KEYS.length);
  });

  it('after any eight bytes of the header were damaged', async () => {
    const { file, peer } = await holder(16);
    const before = readFileSync(file).subarray(0, 1200);
    // Among them 4 and its inverse, which was once enough to change the number of files.
    for (const garbage of [
      Buffer.alloc(8),
      Buffer.alloc(8, 0xa5),
      Buffer.from([4, 0, 0, 0, 251, 255, 255, 255]),
    ]) {
      for (let at = 0; at < 96; at += 4) {
        overwrite(file, at, garbage);
        let answer: unknown = 0;
        try {
          const lock = new ProcessLock({ path: file, files: 4 });
          answer = KEYS.filter((key) => lock.tryAcquire(key) !== undefined).length;
          await lock.close();
        } catch (error) {
          answer = (error as LockError).code;
        }
        expect(answer, `at ${at}`).toMatch(/^ERR_LOCK_FILE_(DAMAGED|VERSION|COUNT|FOREIGN)$/);
        overwrite(file, 0, before);
      }
    }
    expect(await newcomer(file)).toBe(0);
    await peer.kill();
  });

  it('if the header belongs to another file', async () => {
    const { file } = await holder(16);
    const other = await holder(4);
    overwrite(file, 0, readFileSync(other.file).subarray(0, 4096));
    expect(await newcomer(file)).toMatch(/^ERR_LOCK_FILE_(DAMAGED|PARTS)$/);
    expect(await newcomer(file, 4)).toMatch(/^ERR_LOCK_FILE_(DAMAGED|PARTS)$/);
  });

  it('if the file has a second name, in the same process and in others', async () => {
    const { file, peer } = await holder(16);
    const second = `${file}.second`;
    linkSync(file, second);
    expect(await newcomer(second)).toBe('ERR_LOCK_FILE_PARTS');
    expect(existsSync(`${second}.1`)).toBe(false);
    const lock = makeLock({ path: file });
    expect(() => new ProcessLock({ path: second })).toThrow(
      expect.objectContaining({ code: 'ERR_LOCK_FILE_PARTS' }),
    );
    expect(KEYS.filter((key) => lock.tryAcquire(key))).toEqual([]);
    await lock.close();
    await peer.kill();
    // One name at a time.
    expect(await newcomer(second)).toBe(KEYS.length);
    expect(await newcomer(file)).toBe(KEYS.length);
  });

  it('if one of the files was deleted or replaced', async () => {
    const { file, peer } = await holder(16);
    unlinkSync(`${file}.7`);
    expect(await newcomer(file)).toBe('ERR_LOCK_FILE_PARTS');
    writeFileSync(`${file}.7`, '');
    expect(await newcomer(file)).toBe('ERR_LOCK_FILE_PARTS');
    await peer.kill();
    expect(await newcomer(file)).toBe(KEYS.length);
  });

  it('after a copy of the files was put in another place', async () => {
    const { file } = await holder(4);
    const copy = path.join(path.dirname(file), 'copy');
    for (const end of ['', '.1', '.2', '.3']) copyFileSync(file + end, copy + end);
    expect(await newcomer(copy)).toBe(KEYS.length);
  });
});

it('a process restores the header that was cut off while it has the file open', async () => {
  const lock = makeLock({ path: lockPath(), files: 16 });
  const guard = lock.acquireSync(KEYS);
  const before = readFileSync(lock.path).subarray(0, 4096);
  truncateSync(lock.path, 0);
  guard.release();
  lock.acquireSync(KEYS);
  expect(readFileSync(lock.path).subarray(0, 4096)).toEqual(before);
  expect(await newcomer(lock.path)).toBe(0);
});

describe('an acquisition in a file that is not at its path any more is refused', () => {
  it.each(['the file', 'its folder', 'a folder above'])('after %s was moved away', (what) => {
    const top = path.dirname(lockPath());
    const folder = path.join(top, 'middle', 'folder');
    mkdirSync(folder, { recursive: true });
    const file = path.join(folder, 'lock');
    const lock = makeLock({ path: file });
    lock.acquireSync('a').release();
    const moved = { 'the file': file, 'its folder': folder, 'a folder above': path.dirname(folder) }[what]!;
    renameSync(moved, `${moved}.away`);
    mkdirSync(folder, { recursive: true });
    const acquire = (): void => lock.acquireSync('a').release();
    const refused = expect.objectContaining({ code: 'ERR_LOCK_FILE_REPLACED' }) as Error;
    if (what === 'the file') {
      expect(acquire).toThrow(refused);
      return;
    }
    // Processes look at the whole path every 100 ms.
    return vi.waitFor(() => {
      expect(acquire).toThrow(refused);
    }, 20_000);
  });

  it('if the file of its key was deleted, at once', () => {
    const lock = makeLock({ path: lockPath(), files: 4 });
    for (const key of KEYS) lock.acquireSync(key).release();
    for (const end of ['.1', '.2', '.3']) unlinkSync(lock.path + end);
    const granted = KEYS.filter((key) => {
      try {
        lock.acquireSync(key).release();
        return true;
      } catch (error) {
        expect(error).toMatchObject({ code: 'ERR_LOCK_FILE_REPLACED' });
        return false;
      }
    });
    // Those of the first file may be granted until the process looks at all paths, at most 100 ms later.
    expect(granted.length).toBeLessThan(KEYS.length / 2);
  });

  it('in another moment of its life', async () => {
    const lock = makeLock({ path: lockPath() });
    const times = [0, 20, 120, 300];
    for (const milliseconds of times) {
      lock.acquireSync('a').release();
      await new Promise((resolve) => setTimeout(resolve, milliseconds));
      lock.acquireSync('a').release();
      renameSync(lock.path, `${lock.path}.away`);
      expect(() => lock.acquireSync('a')).toThrow(
        expect.objectContaining({ code: 'ERR_LOCK_FILE_REPLACED' }),
      );
      renameSync(`${lock.path}.away`, lock.path);
      makeLock({ path: lock.path });
    }
  });
});

describe('a file that was cut', () => {
  it('ends no process, whatever this does next', async () => {
    const file = lockPath();
    const peer = await Peer.start(file);
    const cut = async (action: string, ...args: unknown[]): Promise<unknown> => {
      // Longer than a look at the file counts.
      await peer.ask('sleep', 5);
      truncateSync(file, 0);
      return peer.ask(action, ...args);
    };
    expect(await cut('tryAcquire', 'a', { mode: 'shared' })).toBeDefined();
    expect(await cut('tryAcquire', 'a', { mode: 'shared' })).toBeDefined();
    expect(await cut('tryAcquire', 'a')).toBeUndefined();
    await expect(cut('acquire', 'a', { timeout: 20 })).rejects.toThrow(/within 20 ms/);
    await expect(cut('acquireSync', 'a', { timeout: 20 })).rejects.toThrow();
    await cut('inspect');
    await cut('releaseAll');
    expect(await cut('tryAcquire', ['a', 'b'])).toBeDefined();
    await cut('releaseAll');
  });

  it('ends no process that releases after it saw that the file was replaced', async () => {
    const file = lockPath();
    const peer = await Peer.start(file);
    await peer.ask('acquire', 'a');
    renameSync(file, `${file}.away`);
    await peer.ask('sleep', 150);
    await expect(peer.ask('tryAcquire', 'b')).rejects.toMatchObject({ code: 'ERR_LOCK_FILE_REPLACED' });
    truncateSync(`${file}.away`, 0);
    await peer.ask('releaseAll');
    await expect(peer.ask('tryAcquire', 'a')).rejects.toMatchObject({ code: 'ERR_LOCK_FILE_REPLACED' });
  });

  it.runIf(process.platform === 'linux')('ends no process that cannot make it as large again', async () => {
    const file = lockPath();
    const peer = await Peer.start(file);
    await peer.ask('acquire', 'a');
    // Stands for a full disk.
    execFileSync('prlimit', ['--pid', String(peer.pid), '--fsize=0:unlimited']);
    await peer.ask('sleep', 5);
    truncateSync(file, 0);
    await expect(peer.ask('tryAcquire', 'b')).rejects.toMatchObject({ code: 'ERR_LOCK_FILE_OPEN' });
    expect(await (await Peer.start(lockPath())).ask<Got>('tryAcquire', 'a')).toBeDefined();
    await peer.ask('releaseAll');
    execFileSync('prlimit', ['--pid', String(peer.pid), '--fsize=unlimited:unlimited']);
    await peer.ask('sleep', 5);
    expect(await peer.ask<Got>('tryAcquire', 'b')).toBeDefined();
    expect(makeLock({ path: file }).tryAcquire('b')).toBeUndefined();
  });

  it.runIf(process.platform === 'linux')(
    'has room on the disk again after it was extended, too',
    async () => {
      const lock = makeLock({ path: lockPath() });
      lock.acquireSync('a').release();
      const { size, blocks } = statSync(lock.path);
      truncateSync(lock.path, 0);
      truncateSync(lock.path, size);
      await new Promise((resolve) => setTimeout(resolve, 5));
      lock.acquireSync('a').release();
      expect(statSync(lock.path).blocks).toBeGreaterThanOrEqual(Math.min(blocks, 64));
    },
  );
});

describe('deaths of holders', () => {
  it.each([
    [4000, 1],
    [10_000, 16],
  ])('are all reported, with %i keys in %i files', { timeout: 120_000 }, async (count, files) => {
    const file = lockPath();
    const peer = await Peer.start(file, files);
    const keys = Array.from({ length: count }, (_, i) => i);
    await peer.ask('acquireEach', keys);
    const lock = makeLock({ path: file });
    await peer.kill();
    const reported = keys.filter((key) => lock.tryAcquire(key)!.abandoned);
    expect(reported).toHaveLength(count);
  });

  it(
    'are reported after many earlier deaths with keys that are no longer used',
    { timeout: 120_000 },
    async () => {
      const file = lockPath();
      const lock = makeLock({ path: file });
      for (let round = 0; round < 6; round++) {
        const peer = await Peer.start(file);
        await peer.ask(
          'acquireEach',
          Array.from({ length: 2500 }, (_, i) => `old ${round} ${i}`),
        );
        await peer.kill();
      }
      const peer = await Peer.start(file);
      await peer.ask('acquireEach', KEYS);
      await peer.kill();
      expect(KEYS.filter((key) => lock.tryAcquire(key)!.abandoned)).toEqual(KEYS);
    },
  );

  it('are reported after many readers died', { timeout: 120_000 }, async () => {
    const file = lockPath();
    const lock = makeLock({ path: file });
    for (let round = 0; round < 6; round++) {
      const peer = await Peer.start(file);
      const keys = Array.from({ length: 2500 }, (_, i) => `old ${round} ${i}`);
      await peer.ask('acquireEach', keys, { mode: 'shared' });
      await peer.kill();
    }
    const peer = await Peer.start(file);
    await peer.ask('acquireEach', KEYS);
    await peer.kill();
    expect(KEYS.filter((key) => lock.tryAcquire(key)!.abandoned)).toEqual(KEYS);
  });
});

describe('a process that waits for many keys', () => {
  it('does not keep others from other keys', async () => {
    const lock = makeLock({ path: lockPath() });
    const peer = await Peer.start(lock.path);
    const held = Array.from({ length: 200 }, (_, i) => `held ${i}`);
    const guards = held.map((key) => lock.acquireSync(key));
    void peer.ask('acquireAll', held).catch(() => undefined);
    // Its answer comes after all acquisitions have begun to wait. And longer than newcomers may pass.
    await peer.ask('sleep', 5);
    // All of these are free, and no other process wants them. Each was once refused for 10 ms after its release.
    const free = Array.from({ length: 500 }, (_, i) => `free ${i}`);
    for (let round = 0; round < 5; round++) {
      for (const key of free) lock.tryAcquire(key)?.release();
    }
    expect(free.filter((key) => lock.tryAcquire(key) === undefined)).toEqual([]);
    for (const guard of guards) guard.release();
  });
});

it('keys that were chosen to share a hash do not share a byte of the file', () => {
  const lock = makeLock({ path: lockPath() });
  // XXH3 with seed 0 multiplies the last eight bytes of such a key by 0.
  const ofHash = (end: string): Uint8Array =>
    Buffer.concat([Buffer.alloc(15), Buffer.from('ded46de9839097db', 'hex'), Buffer.from(end)]);
  expect(lock.tryAcquire(ofHash('attacker'))?.held).toBe(true);
  expect(lock.tryAcquire(ofHash('innocent'))?.held).toBe(true);
});

it('two copies of the package in one process open a file at the same time', { timeout: 60_000 }, async () => {
  const file = lockPath();
  const copies = await Promise.all([copyForTest({ addon: 'copy' }), copyForTest({ addon: 'copy' })]);
  const failed = await Promise.all(
    copies.map(
      (copy) =>
        new Promise((resolve, reject) => {
          const worker = new Worker(new URL('../workers/open-again.mjs', import.meta.url), {
            workerData: { copy, file, times: 3000 },
          });
          worker.once('message', resolve);
          worker.once('error', reject);
        }),
    ),
  );
  expect(failed).toEqual([[], []]);
});

it('files that are opened and closed again and again take little memory', async () => {
  const { code, stdout } = await runProgram('reopened-files.mjs', [path.dirname(lockPath())]);
  expect(code).toBe(0);
  const [resident, reserved] = JSON.parse(stdout) as [number, number];
  expect(resident).toBeLessThan(200);
  // Each file that is open has some MiB of address space, which stays until JavaScript has collected its views.
  expect(reserved).toBeLessThan(6000);
});

it('a file stays open for an acquisition that waits, even if the program has forgotten its lock', async () => {
  const { code, stderr } = await runProgram('forgotten-process-lock.mjs', [lockPath()], ['--expose-gc']);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
});
