import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { inspect } from 'node:util';
import { describe, expect, expectTypeOf, it, onTestFinished } from 'vitest';
import { LockedFile, type LockedFileOptions } from 'stripelock/file';
import { ProcessLock } from 'stripelock/process';
import { runNode, runProgram, type ProgramResult } from '../support/programs.js';

interface Counter {
  count: number;
}

const LEFT = '.stripelock-new';
const VALUE: Counter = { count: 1 };

/** A path in a new folder, whose file has the contents, if any. */
function pathTo(contents?: string | Uint8Array, name = 'state.json'): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-file-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  const file = path.join(folder, name);
  if (contents !== undefined) writeFileSync(file, contents);
  return file;
}

const jsonAt = (file: string): unknown => JSON.parse(readFileSync(file, 'utf8'));
const increment = ({ count }: Counter): Counter => ({ count: count + 1 });

interface WriterSettings {
  path: string;
  updates?: number;
  sync?: boolean;
  options?: LockedFileOptions<Counter>;
  faults?: Record<string, string[]>;
  killAt?: number;
  halfway?: boolean;
}

const writer = (settings: WriterSettings): Promise<ProgramResult> =>
  runProgram('locked-file-writer.mjs', [JSON.stringify(settings)]);

interface Failure {
  code: string;
  message: string;
  cause?: string;
}
/** The error with which the writer's update failed. */
const failureOf = ({ stdout }: ProgramResult): Failure => JSON.parse(stdout) as Failure;

it('is shown by console.log with its path alone', () => {
  const file = new LockedFile('state.json');
  expect(inspect(file)).toBe(`LockedFile { path: ${inspect(file.path)} }`);
});

it('is read, and not changed, under the permission model of Node', async () => {
  const file = pathTo('1');
  const model = process.allowedNodeEnvironmentFlags.has('--permission')
    ? '--permission'
    : '--experimental-permission';
  const program = `import { LockedFile } from 'stripelock/file';
    const file = new LockedFile(${JSON.stringify(file)});
    console.log(await file.read(), await file.update((value) => value + 1).catch(({ code }) => code));`;
  const options = [model, '--allow-addons', '--allow-fs-read=*', '--allow-fs-write=*', '--input-type=module'];
  const { stdout } = await runNode([...options, '-e', program]);
  expect(stdout).toBe('1 ERR_FILE_WRITE\n');
  expect(readFileSync(file, 'utf8')).toBe('1');
});

describe('an update', () => {
  it('changes the value, and resolves with the new one', async () => {
    const file = new LockedFile<Counter>(pathTo('{ "count": 1 }'));
    expect(await file.update(increment)).toEqual({ count: 2 });
    expect(file.updateSync(increment)).toEqual({ count: 3 });
    expect(await file.update(async (value) => increment(value))).toEqual({ count: 4 });
    expect(await file.read()).toEqual({ count: 4 });
    expect(file.readSync()).toEqual({ count: 4 });
    expect(readFileSync(file.path, 'utf8')).toBe('{\n  "count": 4\n}\n');
    expect(readdirSync(path.dirname(file.path)).sort()).toEqual(['state.json', 'state.json.lock']);
  });

  it('writes nothing if the function returns nothing', async () => {
    const file = new LockedFile<Counter>(pathTo('{"count":1}'));
    const { ino } = statSync(file.path);
    expect(await file.update(() => undefined)).toEqual({ count: 1 });
    expect(file.updateSync(() => undefined)).toEqual({ count: 1 });
    expect(statSync(file.path).ino).toBe(ino);
  });

  it('leaves the file as it is if the function fails', async () => {
    const file = new LockedFile<Counter>(pathTo('{"count":1}'));
    const failed = new Error('failed');
    const fail = (): never => {
      throw failed;
    };
    await expect(file.update(fail)).rejects.toBe(failed);
    expect(() => file.updateSync(fail)).toThrow(failed);
    expect(readFileSync(file.path, 'utf8')).toBe('{"count":1}');
    expect(await file.update(increment)).toEqual({ count: 2 });
  });

  it('is refused if its blocking function returns a promise', () => {
    const file = new LockedFile<Counter>(pathTo('{"count":1}'));
    // @ts-expect-error: an async function
    expect(() => file.updateSync(async () => ({ count: 2 }))).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }) as Error,
    );
    expect(jsonAt(file.path)).toEqual({ count: 1 });
  });

  it('waits for the lock until its timeout, and until its signal aborts', async () => {
    const file = new LockedFile<Counter>(pathTo('{"count":1}'), { timeout: 20 });
    await using lock = new ProcessLock({ path: `${file.path}.lock` });
    using _held = lock.acquireSync();
    await expect(file.update(increment)).rejects.toMatchObject({ code: 'ERR_LOCK_TIMEOUT', timeout: 20 });
    const reason = new Error('no longer needed');
    const aborted = file.update(increment, { timeout: Infinity, signal: AbortSignal.abort(reason) });
    await expect(aborted).rejects.toBe(reason);
    // Readers do not wait.
    expect(file.readSync()).toEqual({ count: 1 });
  });
});

describe('a file that does not exist', () => {
  it('has the initial value, which no update changes', async () => {
    const initial = { count: 0, list: [] as number[] };
    const file = new LockedFile(pathTo(), { initial });
    expect(await file.read()).toEqual(initial);
    expect(existsSync(file.path)).toBe(false);
    await file.update((value) => {
      value.list.push(1);
      return value;
    });
    expect(initial.list).toEqual([]);
    expect(file.readSync()).toEqual({ count: 0, list: [1] });
  });

  it('has the value that a function returns', async () => {
    const file = new LockedFile<Counter>(pathTo(), { initial: () => ({ count: 7 }) });
    expect(await file.update(increment)).toEqual({ count: 8 });
  });

  it('is an error without an initial value', async () => {
    const file = new LockedFile<Counter>(pathTo());
    await expect(file.read()).rejects.toMatchObject({ code: 'ERR_FILE_MISSING' });
    await expect(file.update(increment)).rejects.toMatchObject({ code: 'ERR_FILE_MISSING' });
    expect(existsSync(file.path)).toBe(false);
  });

  it.skipIf(process.platform === 'win32')('gets the permissions of the option, less the umask', async () => {
    const umask = process.umask(0o022);
    try {
      const file = new LockedFile(pathTo(), { initial: VALUE, mode: 0o660 });
      await file.update(increment);
      expect(statSync(file.path).mode & 0o777).toBe(0o640);
    } finally {
      process.umask(umask);
    }
  });
});

describe('the contents', () => {
  it('are a string, in UTF-8', async () => {
    const file = LockedFile.text(pathTo('grün', 'a.txt'));
    expectTypeOf(file.readSync()).toEqualTypeOf<string>();
    expect(await file.update((text) => `${text}er`)).toBe('grüner');
    expect(readFileSync(file.path, 'utf8')).toBe('grüner');
  });

  it('are bytes', async () => {
    const file = LockedFile.bytes(pathTo(Uint8Array.of(0, 255), 'a.bin'));
    expectTypeOf(file.readSync()).toEqualTypeOf<Uint8Array>();
    await file.update((bytes) => Uint8Array.of(...bytes, 7));
    expect([...readFileSync(file.path)]).toEqual([0, 255, 7]);
  });

  it('are what two functions make of them', async () => {
    const file = new LockedFile<number[]>(pathTo('1,2'), {
      parse: (text) => text.split(',').map(Number),
      stringify: (list) => list.join(','),
    });
    expect(await file.update((list) => [...list, 3])).toEqual([1, 2, 3]);
    expect(readFileSync(file.path, 'utf8')).toBe('1,2,3');
  });

  it('may start with a byte order mark', async () => {
    expect(await new LockedFile(pathTo('\uFEFF{"count":1}')).read()).toEqual(VALUE);
  });

  it.each([
    ['{"count": }', 'line 1, column 11'],
    ['{"count": 1,\n "b": 2', 'line 2, column 8'],
    ['', 'line 1, column 1'],
    ['{\n  "count": 1 // one\n}', 'line 2, column 14'],
  ])('are refused with the position of the fault, if they are not JSON: %j', async (text, place) => {
    const file = new LockedFile<Counter>(pathTo(text));
    const refused = {
      code: 'ERR_FILE_PARSE',
      message: expect.stringContaining(
        `${JSON.stringify(file.path)} could not be parsed at ${place}: `,
      ) as string,
    };
    await expect(file.read()).rejects.toMatchObject(refused);
    await expect(file.update(increment)).rejects.toMatchObject(refused);
    expect(readFileSync(file.path, 'utf8')).toBe(text);
  });

  it('are refused if they are not UTF-8, which a new version would not preserve', async () => {
    const file = new LockedFile(pathTo(Uint8Array.of(0x22, 0xff, 0x22)));
    await expect(file.update(() => 1)).rejects.toMatchObject({ code: 'ERR_FILE_PARSE' });
    expect([...readFileSync(file.path)]).toEqual([0x22, 0xff, 0x22]);
  });

  it('are refused above the size limit, old or new', async () => {
    const file = new LockedFile(pathTo('"1234"'), { maxBytes: 6 });
    await expect(file.update(() => '12345')).rejects.toMatchObject({ code: 'ERR_FILE_SIZE' });
    expect(readFileSync(file.path, 'utf8')).toBe('"1234"');
    writeFileSync(file.path, '"12345"');
    await expect(file.read()).rejects.toMatchObject({ code: 'ERR_FILE_SIZE' });
  });

  it('are refused if JSON cannot represent them', async () => {
    const file = new LockedFile(pathTo('1'));
    const refused = {
      name: 'TypeError',
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringContaining(JSON.stringify(file.path)) as string,
    };
    await expect(file.update(() => () => 1)).rejects.toMatchObject(refused);
    await expect(file.update(() => 1n)).rejects.toMatchObject(refused);
    expect(readFileSync(file.path, 'utf8')).toBe('1');
  });
});

describe('a path', () => {
  it('may be a URL, or relative', () => {
    const file = pathTo('1');
    expect(new LockedFile(pathToFileURL(file)).path).toBe(file);
    expect(new LockedFile('state.json').path).toBe(path.resolve('state.json'));
  });

  it('is refused as the text of a URL', () => {
    const { href } = pathToFileURL(pathTo('1'));
    expect(() => new LockedFile(href)).toThrow(expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }));
  });

  it('that is a symbolic link stays one, and has the lock of its file', async () => {
    const file = pathTo('{"count":1}');
    const other = path.join(path.dirname(file), 'folder');
    mkdirSync(other);
    const link = path.join(other, 'link.json');
    symlinkSync('../state.json', link);
    expect(await new LockedFile<Counter>(link).update(increment)).toEqual({ count: 2 });
    expect(readlinkSync(link)).toBe('../state.json');
    expect(readdirSync(other)).toEqual(['link.json']);
    expect(jsonAt(file)).toEqual({ count: 2 });
    expect(existsSync(`${file}.lock`)).toBe(true);
  });

  it('that is a symbolic link to a missing file creates that file', async () => {
    const file = pathTo();
    const link = path.join(path.dirname(file), 'link.json');
    symlinkSync('state.json', link);
    await new LockedFile(link, { initial: VALUE }).update(increment);
    expect(lstatSync(link).isSymbolicLink()).toBe(true);
    expect(jsonAt(file)).toEqual({ count: 2 });
  });

  it('is refused if it is a folder, a pipe, or in a missing folder', async () => {
    const file = pathTo();
    const folder = path.dirname(file);
    await expect(new LockedFile(folder).read()).rejects.toMatchObject({ code: 'ERR_FILE_KIND' });
    await expect(new LockedFile(folder).update(() => 1)).rejects.toMatchObject({ code: 'ERR_FILE_KIND' });
    expect(existsSync(`${folder}.lock`)).toBe(false);
    const lost = new LockedFile(path.join(folder, 'missing', 'file'), { initial: 1 });
    await expect(lost.update(() => 2)).rejects.toMatchObject({ code: 'ERR_FILE_READ' });
    if (process.platform === 'win32') return;
    execFileSync('mkfifo', [file]);
    expect(() => new LockedFile(file).readSync()).toThrow(
      expect.objectContaining({ code: 'ERR_FILE_KIND' }) as Error,
    );
  });
});

describe.skipIf(process.platform === 'win32')('a new version', () => {
  it.each(['600', '644', '4755'])('keeps the permissions %s', async (permissions) => {
    const mode = parseInt(permissions, 8);
    const file = new LockedFile<Counter>(pathTo('{"count":1}'));
    chmodSync(file.path, mode);
    await file.update(increment);
    expect(statSync(file.path).mode & 0o7777).toBe(mode);
  });

  it.runIf(process.getuid?.() === 0)('keeps its owner', async () => {
    const file = new LockedFile<Counter>(pathTo('{"count":1}'));
    chownSync(file.path, 1234, 4321);
    await file.update(increment);
    const { uid, gid } = statSync(file.path);
    expect({ uid, gid }).toEqual({ uid: 1234, gid: 4321 });
  });

  it.runIf(process.getuid?.() === 0)('is not written if it cannot keep its owner', async () => {
    const file = pathTo('{"count":1}');
    chownSync(file, 1234, 4321);
    const refused = failureOf(await writer({ path: file, faults: { fchown: ['EPERM'] } }));
    expect(refused).toMatchObject({ code: 'ERR_FILE_OWNER', cause: 'EPERM' });
    expect(readFileSync(file, 'utf8')).toBe('{"count":1}');
    expect(existsSync(file + LEFT)).toBe(false);
  });
});

describe('a key of a lock that the caller passes', () => {
  it('is the lock of the file', async () => {
    const path_ = pathTo('{"count":1}');
    await using lock = new ProcessLock({ path: pathTo() });
    const file = new LockedFile<Counter>(path_, { lock, timeout: 0 });
    {
      using _held = lock.acquireSync(path_);
      await expect(file.update(increment)).rejects.toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
    }
    expect(await file.update(increment)).toEqual({ count: 2 });
    expect(existsSync(`${path_}.lock`)).toBe(false);
  });
});

describe('several files', () => {
  it('are updated together', async () => {
    const from = new LockedFile<Counter>(pathTo('{"count":1}'));
    const to = LockedFile.text(pathTo('x'));
    const values = await LockedFile.update([from, to], ([{ count }, text]) => [
      { count: count - 1 },
      text.repeat(count + 1),
    ]);
    expectTypeOf(values).toEqualTypeOf<[Counter, string]>();
    expect(values).toEqual([{ count: 0 }, 'xx']);
    expect(await LockedFile.update([to, from], () => [undefined, { count: 5 }])).toEqual([
      'xx',
      { count: 5 },
    ]);
    expect(await LockedFile.update([to, from], () => undefined)).toEqual(['xx', { count: 5 }]);
    expect([from.readSync(), to.readSync()]).toEqual([{ count: 5 }, 'xx']);
  });

  it('in any order never wait for each other', async () => {
    const one = new LockedFile<Counter>(pathTo('{"count":0}'), { timeout: Infinity });
    const other = new LockedFile<Counter>(pathTo('{"count":0}'), { timeout: Infinity });
    await Promise.all(
      Array.from({ length: 40 }, (_, i) =>
        LockedFile.update(i % 2 ? [one, other] : [other, one], ([a, b]) => [increment(a), increment(b)]),
      ),
    );
    expect([one.readSync(), other.readSync()]).toEqual([{ count: 40 }, { count: 40 }]);
  });

  it('are all left as they are if one of the new values is refused', async () => {
    const one = new LockedFile<unknown>(pathTo('1'));
    const other = new LockedFile<unknown>(pathTo('1'));
    const refused = LockedFile.update([one, other], () => [2, () => 2]);
    await expect(refused).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    expect([one.readSync(), other.readSync()]).toEqual([1, 1]);
    expect(readdirSync(path.dirname(one.path)).filter((name) => name.endsWith(LEFT))).toEqual([]);
  });

  it('must be different files', async () => {
    const file = pathTo('1');
    const link = `${file}.link`;
    symlinkSync(file, link);
    const twice = LockedFile.update([new LockedFile(file), new LockedFile(link)], () => [1, 2]);
    await expect(twice).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
  });
});

describe.each([false, true])('a system call that fails (blocking: %s)', (sync) => {
  it('is repeated if another program may have the file open', async () => {
    const file = pathTo('{"count":1}');
    const faults = { rename: ['EPERM', 'EBUSY', 'EACCES', 'EBUSY'], open: ['EBUSY', 'EPERM'] };
    expect((await writer({ path: file, sync, faults })).stdout).toBe('2\n');
    expect(jsonAt(file)).toMatchObject({ count: 2 });
  });

  it('is repeated if a virus scanner has the temporary file of a killed writer open, or blocks the new one', async () => {
    const file = pathTo('{"count":1}');
    writeFileSync(file + LEFT, 'left');
    // Windows deletes a file only after its last reader has closed it. Until then, no file of that name can be created.
    const faults = { unlink: ['EBUSY', 'EPERM'], open: ['', 'EPERM', 'EBUSY'], rename: ['EACCES'] };
    expect((await writer({ path: file, sync, faults })).stdout).toBe('2\n');
    expect(readdirSync(path.dirname(file)).sort()).toEqual(['state.json', 'state.json.lock']);
  });

  it('ends the update at the timeout', async () => {
    const file = pathTo('{"count":1}');
    const faults = { rename: Array.from({ length: 1000 }, () => 'EBUSY') };
    const failure = failureOf(await writer({ path: file, sync, options: { timeout: 50 }, faults }));
    expect(failure).toMatchObject({ code: 'ERR_FILE_WRITE', cause: 'EBUSY' });
  });

  it.each([
    ['access', 'EACCES', 'ERR_FILE_WRITE'],
    ['unlink', 'EROFS', 'ERR_FILE_WRITE'],
    ['writeFile', 'ENOSPC', 'ERR_FILE_WRITE'],
    ['fchmod', 'EIO', 'ERR_FILE_WRITE'],
    ['fsync', 'EIO', 'ERR_FILE_WRITE'],
    ['rename', 'EIO', 'ERR_FILE_WRITE'],
    ['open', 'EACCES', 'ERR_FILE_READ'],
    ['readFile', 'EIO', 'ERR_FILE_READ'],
    ['fstat', 'EIO', 'ERR_FILE_READ'],
    ['realpath', 'EACCES', 'ERR_FILE_READ'],
  ])('(%s, %s) leaves the old version', async (call, cause, code) => {
    const file = pathTo('{"count":1}');
    const failure = failureOf(await writer({ path: file, sync, faults: { [call]: [cause] } }));
    expect(failure).toMatchObject({ code, cause });
    expect(failure.message).toContain(JSON.stringify(file));
    expect(readFileSync(file, 'utf8')).toBe('{"count":1}');
    expect(existsSync(file + LEFT)).toBe(false);
  });
});

describe.each([false, true])('a writer that is killed (blocking: %s)', (sync) => {
  /** Kills a writer before its first operation, its second, and so on, until one comes to its end. */
  it('before any of its steps leaves a whole version, and no update is lost', async () => {
    const file = pathTo('{"count":1}');
    let count = 1;
    let killed = 0;
    for (let killAt = 1; ; killAt++) {
      const { signal, stdout } = await writer({ path: file, sync, killAt });
      const found = (jsonAt(file) as Counter).count;
      expect([count, count + 1]).toContain(found);
      count = found;
      if (signal === null) {
        expect(stdout).toBe(`${count}\n`);
        break;
      }
      expect(stdout).toBe('');
      killed++;
    }
    expect(killed).toBeGreaterThan(12);
    expect(existsSync(file + LEFT)).toBe(false);
  });

  it('in the middle of a write leaves the old version, and the next writer removes what is left', async () => {
    const file = pathTo('{"count":1}');
    const { signal } = await writer({ path: file, sync, halfway: true });
    expect(signal).toBe('SIGKILL');
    expect(jsonAt(file)).toEqual({ count: 1 });
    expect(existsSync(file + LEFT)).toBe(true);
    const { stdout } = await writer({ path: file, sync });
    expect(stdout).toBe('2\n');
    expect(existsSync(file + LEFT)).toBe(false);
  });
});

it('processes that change a file at once lose no update, and no reader sees half of one', async () => {
  const file = new LockedFile<Counter>(pathTo('{"count":0}'));
  const writers = Promise.all(
    Array.from({ length: 4 }, (_, i) =>
      writer({ path: file.path, updates: 25, sync: i % 2 === 0, options: { timeout: 30_000 } }),
    ),
  );
  let ended = false;
  void writers.finally(() => (ended = true));
  let last = 0;
  while (!ended) {
    const { count } = await file.read();
    expect(count).toBeGreaterThanOrEqual(last);
    last = count;
  }
  const acknowledged = (await writers).flatMap(({ stdout }) => stdout.trim().split('\n').map(Number));
  expect(acknowledged.sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
  expect(await file.read()).toMatchObject({ count: 100 });
});

describe('bad input', () => {
  it.each([
    [() => new LockedFile(7 as never), 'ERR_INVALID_ARG_TYPE'],
    [() => new LockedFile(''), 'ERR_INVALID_ARG_TYPE'],
    [() => new LockedFile('a\0b'), 'ERR_INVALID_ARG_TYPE'],
    [() => new LockedFile('a', { initail: 1 } as never), 'ERR_INVALID_ARG_TYPE'],
    [() => new LockedFile('a', { parse: 1 as never }), 'ERR_INVALID_ARG_TYPE'],
    [() => LockedFile.text('a', { parse: String } as never), 'ERR_INVALID_ARG_TYPE'],
    [() => LockedFile.bytes('a', { initial: 'a' as never }), 'ERR_INVALID_ARG_TYPE'],
    [() => new LockedFile('a', { mode: -1 }), 'ERR_OUT_OF_RANGE'],
    [() => new LockedFile('a', { mode: '600' as never }), 'ERR_INVALID_ARG_TYPE'],
    [() => new LockedFile('a', { maxBytes: 0 }), 'ERR_OUT_OF_RANGE'],
    [() => new LockedFile('a', { timeout: -1 }), 'ERR_OUT_OF_RANGE'],
    [() => new LockedFile('a', { signal: {} as never }), 'ERR_INVALID_ARG_TYPE'],
    [() => new LockedFile('a', { lock: {} as never }), 'ERR_INVALID_ARG_TYPE'],
    [() => new LockedFile('a', { initial: () => 1 }).updateSync(1 as never), 'ERR_INVALID_ARG_TYPE'],
  ])('throws an error with a code: %s', (call, code) => {
    expect(call).toThrow(expect.objectContaining({ code }) as Error);
  });

  it.each([
    [(file: LockedFile) => file.update(1 as never), 'ERR_INVALID_ARG_TYPE'],
    [(file: LockedFile) => file.update(() => 1, { timeot: 1 } as never), 'ERR_INVALID_ARG_TYPE'],
    [(file: LockedFile) => file.update(() => 1, { timeout: NaN }), 'ERR_OUT_OF_RANGE'],
    [() => LockedFile.update([], () => []), 'ERR_INVALID_ARG_TYPE'],
    [() => LockedFile.update([1] as never, () => []), 'ERR_INVALID_ARG_TYPE'],
    [(file: LockedFile) => LockedFile.update([file], (() => 1) as never), 'ERR_INVALID_ARG_TYPE'],
  ])('rejects with an error that has a code: %s', async (call, code) => {
    const file = pathTo('1');
    await expect(call(new LockedFile(file))).rejects.toMatchObject({ code });
    expect(readFileSync(file, 'utf8')).toBe('1');
  });
});
