import { fromEnvironment } from '../common/environment.js';
import { LockError } from '../common/errors.js';
import { warnOnce } from '../common/warnings.js';
import type { ContentionEngine, LeaseRecorder } from './contract/contention.js';
import { createThreadCounts, type LockCounts, type LockKind, type ThreadCounts } from './contract/counts.js';
import type { Engine, EngineName, LockTable } from './contract/engine.js';
import {
  ENGINE_INDEX,
  ENGINE_JAVASCRIPT,
  ENGINE_NATIVE,
  EXACT_INDEX,
  HEADER_INTS,
  LIMIT_INDEX,
  MAGIC,
  MAGIC_INDEX,
  STRIPES_INDEX,
  VERSION,
  VERSION_INDEX,
} from './contract/layout.js';
import type { LeaseEngine } from './contract/lease-table.js';
import type { ProcessLockEngine } from './contract/process-locks.js';
import type { TerminalSignals } from './contract/terminal-signals.js';
import type { WebLockEngine } from './contract/web-locks.js';
import { corrupt, spanOf, type TableMemory, type TableShape } from './contract/table-memory.js';
import { JavaScriptEngine, openKeyedTable } from './javascript/engine.js';
import { JavaScriptLeases } from './javascript/leases.js';
import { JavaScriptWebLockEngine } from './javascript/web-locks.js';
import { loadNativeEngine, OtherVersion } from './native/engine.js';

let javascript: Engine | undefined;
let javascriptLeases: LeaseEngine | undefined;
let javascriptWebLocks: WebLockEngine | undefined;
/**
 * The native engine. Another copy of this package in the same thread may have created the engine: see
 * `native/engine.ts`.
 */
let native: ReturnType<typeof loadNativeEngine> | undefined;
let nativeLeases: LeaseEngine | undefined;
let nativeWebLocks: WebLockEngine | undefined;
let nativeFailure: unknown;
/**
 * Whether `STRIPELOCK_ENGINE` is `native`. In that case, a missing addon is an error instead of a reason to
 * fall back to JavaScript.
 */
let nativeIsRequired = false;

/** Creates a lock on the engine with this name. If no name is given, uses the best available engine. */
export function createTable(name: EngineName | undefined, shape: TableShape): LockTable {
  const engine = name === undefined ? bestEngine() : engineNamed(name);
  return withOurErrors(() => engine.create(shape));
}

/**
 * Opens an existing lock. All threads must use the engine that created the lock. Throws a TypeError if
 * `memory` does not belong to a lock of this shape, and a LockError (ERR_LOCK_ENGINE) if this thread cannot
 * use the engine.
 */
export function openTable(memory: TableMemory, shape: TableShape): LockTable {
  const { stripes, exact, limit } = shape;
  if (memory.local !== undefined) return openKeyedTable(memory.local, shape);
  const span = spanOf(memory, stripes);
  const header = new Int32Array(span.buffer, span.offset, HEADER_INTS);
  if (header[MAGIC_INDEX] !== MAGIC) throw corrupt('its memory does not belong to a lock');
  if (header[VERSION_INDEX] !== VERSION) throw corrupt('another version of stripelock created it');
  if (header[STRIPES_INDEX] !== stripes) throw corrupt('its stripe counts differ');
  if (header[EXACT_INDEX] !== (exact ? 1 : 0)) throw corrupt('it is the handle of another class');
  if (header[LIMIT_INDEX] !== limit) throw corrupt('its limits differ');
  switch (header[ENGINE_INDEX]) {
    case ENGINE_NATIVE:
      return withOurErrors(() => engineNamed('native').open(memory, span, shape));
    case ENGINE_JAVASCRIPT:
      return engineNamed('javascript').open(memory, span, shape);
    default:
      throw corrupt('its engine is unknown');
  }
}

/**
 * Returns the engine of leases in memory. If the addon loads, all threads of the process share the leases;
 * otherwise the leases are limited to this thread.
 */
export function leaseEngine(): LeaseEngine {
  const leases = nativeOrUndefined()?.leases;
  if (leases === undefined) {
    fallBack();
    return (javascriptLeases ??= new JavaScriptLeases());
  }
  const { name, id, elapsed } = leases;
  return (nativeLeases ??= {
    name,
    id,
    elapsed,
    openTable: (ownClock, number) => withOurErrors(() => leases.openTable(ownClock, number)),
    openGate: (capacity, number) => withOurErrors(() => leases.openGate(capacity, number)),
  });
}

/**
 * The native engine of web locks, which all threads of the process share. Undefined if the addon does not
 * load.
 */
export function nativeWebLockEngine(): WebLockEngine | undefined {
  const webLocks = nativeOrUndefined()?.webLocks;
  if (webLocks === undefined) return undefined;
  const { name, id } = webLocks;
  return (nativeWebLocks ??= { name, id, open: (number) => withOurErrors(() => webLocks.open(number)) });
}

/**
 * The engine of web locks. If the addon loads, all threads of the process share the web locks; otherwise the
 * web locks are limited to this thread.
 */
export function webLockEngine(): WebLockEngine {
  const engine = nativeWebLockEngine();
  if (engine !== undefined) return engine;
  fallBack();
  return (javascriptWebLocks ??= new JavaScriptWebLockEngine());
}

/**
 * The engine of locks that processes share through files. This function, {@link terminalSignals},
 * {@link lockCounts} and {@link contentionEngine} throw a LockError (ERR_LOCK_ENGINE) if the addon does not
 * load.
 */
export function processLockEngine(): ProcessLockEngine {
  return nativeFor('locks between processes need').processLocks;
}

/** Detects which signals came from a terminal. */
export function terminalSignals(): TerminalSignals {
  return nativeFor('the senders of signals need').terminalSignals;
}

/** The counters of all locks of the process, summed for each lock name. */
export function lockCounts(): LockCounts[] {
  return nativeFor('metrics of all threads need').lockCounts();
}

/**
 * This thread's counts for locks of one kind and name. They are part of {@link lockCounts}. Without the
 * addon, no code reads the counts. A missing addon is not an error here, because leases and web locks work
 * without the addon.
 */
export function threadCounts(kind: LockKind, name: string): ThreadCounts {
  return usableNative()?.threadCounts(kind, name) ?? createThreadCounts();
}

/** The engine that profiles lock contention in all threads. */
export function contentionEngine(): ContentionEngine {
  return nativeFor('profiles of contention need').contention;
}

/** Records this thread's waits for leases in profiles of contention. Undefined without the addon. */
export function leaseRecorder(): LeaseRecorder | undefined {
  return usableNative()?.contention.leases;
}

function nativeFor(need: string): NonNullable<typeof native> {
  const engine = nativeOrUndefined();
  if (engine) return engine;
  throw new LockError('ERR_LOCK_ENGINE', `${need} the native addon, and it could not be loaded`, {
    cause: nativeFailure,
  });
}

/**
 * The clock of the native engine: see {@link LeaseEngine.elapsed}. Undefined if the native engine is not
 * available; callers can work without this clock.
 */
export function engineClock(): (() => number) | undefined {
  return usableNative()?.leases.elapsed;
}

/** Like {@link nativeOrUndefined}, but returns undefined instead of throwing a LockError. */
function usableNative(): typeof native {
  try {
    return nativeOrUndefined();
  } catch (error) {
    if (error instanceof LockError) return undefined;
    throw error;
  }
}

function bestEngine(): Engine {
  if (nativeOrUndefined()) return native!;
  fallBack();
  return engineNamed('javascript');
}

function engineNamed(name: EngineName): Engine {
  if (name === 'javascript') return (javascript ??= new JavaScriptEngine());
  const engine = nativeOrUndefined();
  if (engine) return engine;
  throw new LockError(
    'ERR_LOCK_ENGINE',
    'this needs the native engine, whose addon could not be loaded; all threads that share a lock must use the same engine',
    { cause: nativeFailure },
  );
}

/**
 * Returns the native engine, or undefined if the addon does not load. Throws a LockError if another version
 * of this package already uses the addon in this thread, or if `STRIPELOCK_ENGINE` has an unknown value.
 */
function nativeOrUndefined(): typeof native {
  if (native === undefined && nativeFailure === undefined) {
    nativeIsRequired = readNativeIsRequired();
    try {
      native = loadNativeEngine();
    } catch (error) {
      nativeFailure = error ?? new Error('unknown failure');
    }
  }
  if (!(nativeFailure instanceof OtherVersion)) return native;
  throw new LockError(
    'ERR_LOCK_ENGINE',
    'another version of stripelock uses the native addon in this thread; all code of a thread must load the same version',
  );
}

/**
 * Calls `run`, and converts each LockError to the class of this copy of the package. Another copy may have
 * created the engine, and errors of another copy are not instances of this copy's classes.
 */
function withOurErrors<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    // The code does not use `instanceof Error`, because an error of another realm is not an instance of this
    // realm's `Error`.
    const { name, code, message } = error as { name?: unknown; code?: string; message?: string };
    if (error instanceof LockError || name !== 'LockError') throw error;
    throw new LockError(code!, message!);
  }
}

/**
 * Whether `STRIPELOCK_ENGINE` is `native`. Throws for an unknown value, because a misspelt `native` must not
 * permit the fallback.
 */
function readNativeIsRequired(): boolean {
  const name = fromEnvironment(({ STRIPELOCK_ENGINE }) => STRIPELOCK_ENGINE) ?? '';
  if (name === '' || name === 'native') return name !== '';
  throw new LockError(
    'ERR_LOCK_ENGINE',
    `STRIPELOCK_ENGINE must be native or empty, and is ${JSON.stringify(name)}`,
  );
}

/**
 * Warns once that the JavaScript engine replaces the native engine. Throws a LockError if
 * `STRIPELOCK_ENGINE=native` forbids the fallback.
 */
function fallBack(): void {
  if (nativeIsRequired) {
    throw new LockError(
      'ERR_LOCK_ENGINE',
      `the native addon could not be loaded, and STRIPELOCK_ENGINE=native forbids the JavaScript engine instead.\n${failureReason()}`,
      { cause: nativeFailure },
    );
  }
  warnOnce(
    'STRIPELOCK_NO_ADDON',
    `the native addon could not be loaded, so locks use the slower JavaScript engine.\n${failureReason()}`,
  );
}

const failureReason = (): string =>
  nativeFailure instanceof Error ? nativeFailure.message : String(nativeFailure);
