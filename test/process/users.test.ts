import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LockedFile } from 'stripelock/file';
import { ProcessLock, type ProcessLockOptions } from 'stripelock/process';
import { runProgram } from '../support/programs.js';
import { Place } from '../command/started.js';

// A lock file that other users can change. Tests with a second user need root, as in CI.

const isRoot = process.getuid?.() === 0;
const OWN = process.getuid?.();
const ONE = 54_321;
const TWO = 54_322;

/** A path in a new folder that all users can write, as the folder of temporary files often is. */
function sharedPath(name = 'lock'): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-users-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  chmodSync(folder, 0o1777);
  return path.join(folder, name);
}

/** Opens the file: the code and the message of the error, or nothing. */
function refusalOf(options: ProcessLockOptions): { code?: string; message?: string } {
  try {
    const lock = new ProcessLock(options);
    lock.acquireSync('key').release();
    void lock.close();
    return {};
  } catch (error) {
    const { code, message } = error as { code: string; message: string };
    return { code, message };
  }
}

/** The result for another user who opens the file: `granted`, or the code and the message of the error. */
async function asUser(user: number, options: ProcessLockOptions): Promise<string> {
  const { code, stdout, stderr } = await runProgram('other-user.mjs', [
    String(user),
    JSON.stringify(options),
  ]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout.trim();
}

const modeOf = (file: string): number => statSync(file).mode & 0o777;

describe.skipIf(process.platform === 'win32')('a lock file that others may write', () => {
  it.each([0o620, 0o602, 0o660, 0o622, 0o666])('is refused with the permissions %o', (mode) => {
    const file = sharedPath();
    writeFileSync(file, '');
    chmodSync(file, mode);
    const { code, message } = refusalOf({ path: file });
    expect(code).toBe('ERR_LOCK_FILE_UNSAFE');
    const shown = `owner ${OWN}, mode 0${mode.toString(8)}`;
    expect(message).toContain(`lock file ${JSON.stringify(file)}: `);
    expect(message).toContain(shown);
    expect(message).toContain(`\`access: '${(mode & 0o002) === 0 ? 'group' : 'all'}'\``);
    expect(statSync(file)).toMatchObject({ size: 0 });
    expect(modeOf(file)).toBe(mode);
  });

  it.each([0o600, 0o640, 0o644, 0o700])('is accepted with the permissions %o', (mode) => {
    const file = sharedPath();
    refusalOf({ path: file });
    chmodSync(file, mode);
    expect(refusalOf({ path: file })).toEqual({});
    expect(modeOf(file)).toBe(mode);
  });

  it('is refused also after it was in use, and its holders keep their keys', () => {
    const file = sharedPath();
    const lock = new ProcessLock({ path: file });
    onTestFinished(() => lock.close());
    const guard = lock.acquireSync('key');
    chmodSync(file, 0o666);
    expect(refusalOf({ path: file }).code).toBe('ERR_LOCK_FILE_UNSAFE');
    expect(guard.held).toBe(true);
    guard.release();
    expect(lock.tryAcquire('key')?.held).toBe(true);
  });

  it('is refused if it is one of several files, which the error names', () => {
    const file = sharedPath();
    const options = { path: file, files: 3 };
    expect(refusalOf(options)).toEqual({});
    chmodSync(`${file}.2`, 0o666);
    const { code, message } = refusalOf(options);
    expect(code).toBe('ERR_LOCK_FILE_UNSAFE');
    expect(message).toContain(`${file}.2": `);
    expect(refusalOf({ ...options, access: 'group' }).code).toBe('ERR_LOCK_FILE_UNSAFE');
    expect(refusalOf({ ...options, access: 'all' })).toEqual({});
  });

  it('is accepted with an `access` that allows these users', () => {
    const file = sharedPath();
    expect(refusalOf({ path: file, access: 'all' })).toEqual({});
    expect(refusalOf({ path: file, access: 'group' }).code).toBe('ERR_LOCK_FILE_UNSAFE');
    chmodSync(file, 0o660);
    expect(refusalOf({ path: file, access: 'group' })).toEqual({});
    expect(refusalOf({ path: file, access: 'all' })).toEqual({});
    expect(refusalOf({ path: file }).code).toBe('ERR_LOCK_FILE_UNSAFE');
  });
});

describe.skipIf(process.platform === 'win32')('a new lock file', () => {
  it.each([
    ['user', 0o600],
    ['group', 0o660],
    ['all', 0o666],
  ] as const)('gets the permissions of the access %s, whatever the umask', async (access, mode) => {
    for (const umask of [0, 0o022, 0o277, 0o777]) {
      const file = sharedPath();
      const before = process.umask(umask);
      const lock = new ProcessLock({ path: file, files: 2, access });
      process.umask(before);
      await lock.close();
      expect([modeOf(file), modeOf(`${file}.1`)], `umask ${umask}`).toEqual([mode, mode]);
    }
  });

  it('takes an empty file of this user, and its permissions', () => {
    const file = sharedPath();
    writeFileSync(file, '', { mode: 0o644 });
    expect(refusalOf({ path: file })).toEqual({});
    expect(modeOf(file)).toBe(0o600);
  });
});

describe.runIf(isRoot)('a lock file of another user', () => {
  it('is refused by root, in which that user could end the process', async () => {
    const file = sharedPath();
    expect(await asUser(ONE, { path: file })).toBe('granted');
    const before = readFileSync(file);
    const { code, message } = refusalOf({ path: file });
    expect(code).toBe('ERR_LOCK_FILE_UNSAFE');
    expect(message).toContain(`owner ${ONE}, mode 0600; this process runs as user 0`);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  it('is refused by another user, though all may write it', async () => {
    const file = sharedPath();
    expect(await asUser(ONE, { path: file, access: 'all' })).toBe('granted');
    const refusal = await asUser(TWO, { path: file });
    expect(refusal).toMatch(/^ERR_LOCK_FILE_UNSAFE /);
    expect(refusal).toContain(`owner ${ONE}, mode 0666; this process runs as user ${TWO}`);
    expect(await asUser(TWO, { path: file, access: 'all' })).toBe('granted');
  });

  it('is refused if that user has put it where one of the files belongs', () => {
    const file = sharedPath();
    writeFileSync(`${file}.1`, '');
    chownSync(`${file}.1`, ONE, ONE);
    const { code, message } = refusalOf({ path: file, files: 2 });
    expect(code).toBe('ERR_LOCK_FILE_UNSAFE');
    expect(message).toContain(`${file}.1": `);
    expect(statSync(`${file}.1`)).toMatchObject({ size: 0, uid: ONE });
    // The next attempt finds the same.
    expect(refusalOf({ path: file, files: 2 }).code).toBe('ERR_LOCK_FILE_UNSAFE');
  });

  it('is refused if it has a second name in the folder', () => {
    const file = sharedPath();
    writeFileSync(`${file}.other`, '');
    chownSync(`${file}.other`, ONE, ONE);
    linkSync(`${file}.other`, file);
    expect(refusalOf({ path: file }).code).toBe('ERR_LOCK_FILE_UNSAFE');
    expect(statSync(file).size).toBe(0);
  });

  it('locks keys for all users if all allow that', async () => {
    const file = sharedPath();
    const lock = new ProcessLock({ path: file, access: 'all', files: 2 });
    onTestFinished(() => lock.close());
    const guard = lock.acquireSync('key');
    const theirs = { path: file, access: 'all', files: 2 } as const;
    expect(await asUser(ONE, theirs)).toBe('refused');
    guard.release();
    expect(await asUser(ONE, theirs)).toBe('granted');
    expect(await asUser(ONE, { path: file })).toMatch(/^ERR_LOCK_FILE_UNSAFE .*owner 0, mode 0666/);
  });

  it('cannot be opened by users without the permission', async () => {
    const file = sharedPath();
    expect(refusalOf({ path: file, access: 'group' })).toEqual({});
    expect(await asUser(ONE, { path: file, access: 'group' })).toMatch(/^ERR_LOCK_FILE_OPEN .*no permission/);
  });

  it('is refused by a LockedFile, unless its lock allows that', async () => {
    const file = sharedPath('state.json');
    writeFileSync(file, '1');
    writeFileSync(`${file}.lock`, '');
    chownSync(`${file}.lock`, ONE, ONE);
    const increment = (value: number): number => value + 1;
    const refused = new LockedFile<number>(file).update(increment);
    await expect(refused).rejects.toMatchObject({ code: 'ERR_LOCK_FILE_UNSAFE' });
    const lock = new ProcessLock({ path: `${file}.lock`, access: 'group' });
    onTestFinished(() => lock.close());
    expect(await new LockedFile<number>(file, { lock }).update(increment)).toBe(2);
  });

  it('is refused by the command, unless an option allows it', async () => {
    const place = new Place();
    onTestFinished(() => place.remove());
    expect((await place.run('--', 'true').ended).code).toBe(0);
    chownSync(place.lock, ONE, ONE);
    const refused = await place.run('--', 'echo', 'ran').ended;
    expect(refused).toMatchObject({ code: 125, stdout: '' });
    expect(refused.stderr).toMatch(/^stripelock: lock file .*owner 54321, mode 0600/);
    expect(await place.stripelock('inspect', '--path', place.lock).ended).toMatchObject({ code: 125 });
    for (const access of ['group', 'all'])
      expect(await place.run('--access', access, '--', 'echo', 'ran').ended).toMatchObject({
        code: 0,
        stdout: 'ran\n',
      });
    const shown = await place.stripelock('inspect', '--path', place.lock, '--access', 'all').ended;
    expect(shown).toMatchObject({ code: 0, stderr: '' });
  });
});

describe.skipIf(process.platform === 'win32')('another kind of file, put where the lock file belongs', () => {
  const refused = (file: string): void => {
    for (const access of ['user', 'group', 'all'] as const)
      expect(refusalOf({ path: file, access }).code).toBe('ERR_LOCK_FILE_KIND');
  };

  it('is refused if it is a symbolic link, and its target is not made', () => {
    const file = sharedPath();
    symlinkSync(`${file}.target`, file);
    refused(file);
    expect(existsSync(`${file}.target`)).toBe(false);
    writeFileSync(`${file}.target`, 'secret');
    refused(file);
    expect(readFileSync(`${file}.target`, 'utf8')).toBe('secret');
  });

  it('is refused if it is a pipe, which has no reader and no writer', () => {
    const file = sharedPath();
    execFileSync('mkfifo', [file]);
    refused(file);
  });

  it('is refused if it is a socket', async () => {
    const file = sharedPath();
    const server = createServer().listen(file);
    onTestFinished(() => void server.close());
    await new Promise((resolve) => server.once('listening', resolve));
    refused(file);
  });

  it('is refused if it is a device', () => {
    refused('/dev/null');
    refused('/dev/tty');
  });

  it('is refused if it is another file of this user, which stays as it is', () => {
    const file = sharedPath();
    writeFileSync(`${file}.other`, 'secret', { mode: 0o600 });
    linkSync(`${file}.other`, file);
    expect(refusalOf({ path: file }).code).toBe('ERR_LOCK_FILE_FOREIGN');
    expect(readFileSync(file, 'utf8')).toBe('secret');
  });

  it('is refused in place of one of several files, which the error names', () => {
    const file = sharedPath();
    expect(refusalOf({ path: file, files: 2 })).toEqual({});
    rmSync(`${file}.1`);
    symlinkSync('/dev/null', `${file}.1`);
    const { code, message } = refusalOf({ path: file, files: 2 });
    expect(code).toBe('ERR_LOCK_FILE_KIND');
    expect(message).toContain(`${file}.1": `);
  });
});

it('a path may be a file URL, also of the command', async () => {
  const place = new Place();
  onTestFinished(() => place.remove());
  const url = pathToFileURL(path.join(place.folder, 'ä b.lock'));
  const lock = new ProcessLock({ path: url });
  expect(lock.path).toBe(path.join(place.folder, 'ä b.lock'));
  await lock.close();
  const { code, stdout, stderr } = await place.stripelock('inspect', '--path', url.href).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain(lock.path);
  expect(await place.stripelock('run', '--path', url.href, '--', 'echo', 'ran').ended).toMatchObject({
    code: 0,
    stdout: 'ran\n',
  });
  const wrong = await place.stripelock('run', '--path', 'file://elsewhere/lock', '--', 'true').ended;
  expect(wrong).toMatchObject({ code: 125 });
  expect(wrong.stderr).toContain('--path');
});

it('an access that does not exist is refused', () => {
  for (const access of ['owner', 0o600, null]) {
    expect(() => new ProcessLock({ path: sharedPath(), access: access as never })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }),
    );
  }
});
