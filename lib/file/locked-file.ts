import path from 'node:path';
import { inspect, type InspectOptions } from 'node:util';
import { checkFunction } from '../common/checks.js';
import { invalidArg, invalidArgType } from '../common/errors.js';
import { performance } from '../common/host.js';
import { isThenable } from '../common/run-held.js';
import { inspectBound, threadBound } from '../common/thread-bound.js';
import type { HostSignal, HostUrl, SyncResult } from '../common/types.js';
import { ProcessLock } from '../process/process-lock.js';
import type { ProcessGuard } from '../process/guard.js';
import { resolvePath } from '../process/options.js';
import {
  checkKind,
  discard,
  flushFolder,
  read,
  replace,
  targetOf,
  writeBeside,
  type Contents,
} from './contents.js';
import { missingError, sizeError } from './errors.js';
import { bytesFormat, textFormat, type FileFormat } from './formats.js';
import { operation, run, runSync, type Steps } from './operations.js';
import {
  resolveFileOptions,
  resolveUpdateOptions,
  type FileSettings,
  type LockedFileOptions,
  type LockedFileUpdateOptions,
  type LockedRawFileOptions,
  type Waiting,
} from './options.js';

const THREAD_BOUND = threadBound('LockedFile', 'pass file.path instead, and create a LockedFile there');
/** The only key of a separate lock file. */
const ONLY_KEY = '';
const plainText = textFormat<string>(
  (text) => text,
  (text) => text,
);

/** A new value. If it is undefined, the file stays unchanged. */
// eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- so that fn need not return a value
export type MaybeNew<T> = T | void;

/** New values for several files. If a file's new value is undefined or missing, the file stays unchanged. */
export type NewValues<V extends readonly unknown[]> = { readonly [I in keyof V]?: V[I] | undefined };

/**
 * A file that several threads and processes of one machine change. An update reads the file under a lock,
 * writes a new version to a temporary file, flushes that file to the disk, and renames it. So no update is
 * lost. Readers see a complete version, and need not wait for writers. If a process dies before the
 * rename, the old version remains.
 *
 * The lock is a {@link ProcessLock}, by default on a separate file beside this one. All programs that change
 * the file must use the same lock. The lock needs the native addon. It is not reentrant: an update inside an
 * update of the same file waits until it times out.
 */
export class LockedFile<T = unknown> {
  /** The file, as an absolute path. */
  readonly path: string;
  /**
   * Makes structured clone refuse the file: see {@link threadBound}.
   *
   * @internal
   */
  protected readonly threadBound = THREAD_BOUND;
  readonly #settings: FileSettings<T>;
  /** The separate lock of the last update. Its file is beside the file to which `path` led at that time. */
  #lockBeside: ProcessLock | undefined;

  /**
   * A file of JSON, or of text that the options `parse` and `stringify` convert. Opens no file yet. Throws a
   * TypeError or RangeError for bad arguments.
   */
  constructor(file: string | HostUrl, options?: LockedFileOptions<T>);
  /** @internal */
  constructor(file: string | HostUrl, options: LockedRawFileOptions<T> | undefined, raw: FileFormat<T>);
  constructor(file: string | HostUrl, options: LockedFileOptions<T> = {}, raw?: FileFormat<T>) {
    this.path = resolvePath(file, 'path');
    this.#settings = resolveFileOptions(options, raw);
  }

  /** A file whose value is its text, in UTF-8. */
  static text(file: string | HostUrl, options?: LockedRawFileOptions<string>): LockedFile<string> {
    return new LockedFile(file, options, plainText);
  }

  /** A file whose value is its bytes. */
  static bytes(file: string | HostUrl, options?: LockedRawFileOptions<Uint8Array>): LockedFile<Uint8Array> {
    return new LockedFile(file, options, bytesFormat);
  }

  /**
   * Reads the current value. Never waits for the lock, and never sees a partly written version. Rejects with
   * a LockError (`ERR_FILE_…`) if the file cannot be read or parsed.
   */
  read(): Promise<T> {
    return run(this.#value());
  }

  /** Like {@link read}, but blocks this thread. */
  readSync(): T {
    return runSync(this.#value());
  }

  /**
   * Calls `fn` with the current value under the lock, writes the result of `fn`, and resolves with that
   * result. If the result is undefined, nothing is written, even if `fn` changed the value that it received.
   * The promise then resolves with that value.
   *
   * Rejects with a LockTimeoutError, with signal.reason, with the error of `fn`, or with a LockError
   * (`ERR_FILE_…`). After an error, the file is unchanged. The only exception is `ERR_FILE_FLUSH`: the file
   * has its new version, but a power failure may bring the old version back.
   */
  async update(
    fn: (value: T) => MaybeNew<T> | PromiseLike<MaybeNew<T>>,
    options?: LockedFileUpdateOptions,
  ): Promise<T> {
    checkFunction(fn, 'fn');
    const waiting = resolveUpdateOptions(options, this.#settings);
    const change = async ([value]: unknown[]): Promise<unknown[]> => [await fn(value as T)];
    const [value] = await run(LockedFile.#update([this], change, waiting));
    return value as T;
  }

  /**
   * Like {@link update}, but blocks this thread. If `fn` returns a promise, this throws
   * a TypeError and writes nothing.
   */
  updateSync(fn: (value: T) => SyncResult<MaybeNew<T>>): T {
    checkFunction(fn, 'fn');
    const change = ([value]: unknown[]): unknown[] => {
      const next: unknown = fn(value as T);
      if (isThenable(next)) throw invalidArg('fn of updateSync returned a promise: use update');
      return [next];
    };
    return runSync(LockedFile.#update([this], change, this.#settings))[0] as T;
  }

  /**
   * Updates several files. It first acquires all locks, in an order that all processes share. Then it reads
   * all files, calls `fn` with their values, and writes the values that `fn` returns. Resolves with the
   * values of all files.
   *
   * All new versions are written beside their files before the first rename. The renames follow one after
   * the other. Between two renames, a reader sees some files in the new version and the other files in
   * the old version. A crash can leave the files in this state. If a rename fails, the error names the
   * files that were already renamed.
   */
  static async update<V extends readonly unknown[]>(
    files: readonly [...{ [I in keyof V]: LockedFile<V[I]> }],
    fn: (values: V) => MaybeNew<NewValues<V>> | PromiseLike<MaybeNew<NewValues<V>>>,
    options?: LockedFileUpdateOptions,
  ): Promise<V> {
    const list = checkedFiles(files);
    checkFunction(fn, 'fn');
    const waiting = resolveUpdateOptions(options, list[0]!.#settings);
    const change = async (values: unknown[]): Promise<readonly unknown[]> => {
      const next: unknown = await fn(values as unknown as V);
      if (next !== undefined && !Array.isArray(next))
        throw invalidArgType('the result of fn', 'a list of values', next);
      return (next ?? []) as readonly unknown[];
    };
    return (await run(LockedFile.#update(list, change, waiting))) as unknown as V;
  }

  /**
   * The text that `console.log` shows.
   *
   * @internal
   */
  [inspect.custom](_depth: number, options: InspectOptions): string {
    return inspectBound(this, options);
  }

  static *#update(
    files: readonly LockedFile[],
    change: Change,
    { timeout, signal }: Waiting,
  ): Steps<unknown[]> {
    const targets: string[] = [];
    for (const file of files) targets.push(yield* targetOf(file.path));
    targets.forEach((target, i) => {
      const first = targets.indexOf(target);
      if (first !== i)
        throw invalidArg(`files[${i}] and files[${first}] are the same file, ${JSON.stringify(target)}`);
    });
    // The targets are checked before the locks are opened, so that no lock file is
    // created beside a folder or a device.
    for (const target of targets) yield* checkKind(target);
    const guards: ProcessGuard[] = [];
    try {
      const end = performance.now() + timeout;
      let left = timeout;
      for (const { lock, keys } of LockedFile.#locksOf(files, targets)) {
        guards.push(yield* acquire(lock, keys, left, signal));
        left = Math.max(0, Math.ceil(end - performance.now()));
      }
      const before: (Contents | undefined)[] = [];
      for (const [i, file] of files.entries()) before.push(yield* file.#contentsOf(targets[i]!));
      const values = files.map((file, i) => file.#decoded(before[i], targets[i]!));
      const next = yield* call(change, values);
      yield* LockedFile.#write(files, targets, before, next);
      return values.map((value, i) => (next[i] === undefined ? value : next[i]));
    } finally {
      for (const guard of guards) guard.release();
    }
  }

  static *#write(
    files: readonly LockedFile[],
    targets: readonly string[],
    before: readonly (Contents | undefined)[],
    next: readonly unknown[],
  ): Steps<void> {
    const fresh = files.flatMap((file, i) => {
      if (next[i] === undefined) return [];
      const target = targets[i]!;
      const { format, maxBytes, mode, timeout } = file.#settings;
      const bytes = format.encode(next[i], target);
      if (bytes.length > maxBytes) throw sizeError(target, bytes.length, maxBytes);
      return [{ target, bytes, stats: before[i]?.stats, mode, timeout }];
    });
    const temporaries: string[] = [];
    const written: string[] = [];
    try {
      for (const { target, bytes, stats, mode, timeout } of fresh) {
        temporaries.push(yield* writeBeside(target, bytes, stats, mode, timeout));
      }
      for (const [i, { target, timeout }] of fresh.entries()) {
        yield* replace(target, temporaries[i]!, timeout, written);
        written.push(target);
      }
    } catch (error) {
      for (const temporary of temporaries.slice(written.length)) yield* discard(temporary);
      throw error;
    }
    for (const folder of new Set(fresh.map(({ target }) => path.dirname(target)))) yield* flushFolder(folder);
  }

  /** The locks of the files, with the keys to acquire. All processes acquire the locks in this order. */
  static #locksOf(
    files: readonly LockedFile[],
    targets: readonly string[],
  ): { lock: ProcessLock; keys: string[] }[] {
    const locks = new Map<string, { lock: ProcessLock; keys: string[] }>();
    files.forEach((file, i) => {
      const shared = file.#settings.lock;
      const lock = shared ?? file.#lockOf(targets[i]!);
      const entry = locks.get(lock.path) ?? { lock, keys: [] };
      entry.keys.push(shared === undefined ? ONLY_KEY : targets[i]!);
      locks.set(lock.path, entry);
    });
    return [...locks.values()].sort((a, b) => (a.lock.path < b.lock.path ? -1 : 1));
  }

  #lockOf(target: string): ProcessLock {
    const file = `${target}.lock`;
    if (this.#lockBeside?.path !== file) this.#lockBeside = new ProcessLock({ path: file });
    return this.#lockBeside;
  }

  *#value(): Steps<T> {
    return this.#decoded(yield* this.#contentsOf(this.path), this.path);
  }

  #contentsOf(file: string): Steps<Contents | undefined> {
    const { maxBytes, timeout } = this.#settings;
    return read(file, maxBytes, timeout);
  }

  #decoded(contents: Contents | undefined, file: string): T {
    const { format, initial } = this.#settings;
    if (contents !== undefined) return format.decode(contents.bytes, file);
    if (initial === undefined) throw missingError(file);
    return initial();
  }
}

const acquire = operation<[ProcessLock, string[], number, HostSignal | undefined], ProcessGuard>(
  (lock, keys, timeout) => lock.acquireSync(keys, { timeout }),
  (lock, keys, timeout, signal) =>
    lock.acquire(keys, signal === undefined ? { timeout } : { timeout, signal }),
);

type Change = (values: unknown[]) => readonly unknown[] | Promise<readonly unknown[]>;

const call = operation<[Change, unknown[]], readonly unknown[]>(
  (change, values) => change(values) as readonly unknown[],
  async (change, values) => change(values),
);

function checkedFiles(files: unknown): LockedFile[] {
  if (!Array.isArray(files) || files.length === 0)
    throw invalidArgType('files', 'a list of at least one LockedFile', files);
  files.forEach((file, i) => {
    if (!(file instanceof LockedFile)) throw invalidArgType(`files[${i}]`, 'a LockedFile', file);
  });
  return files as LockedFile[];
}
