import { fromEnvironment } from '../common/environment.js';
import { LockError } from '../common/errors.js';
import { warnOnce } from '../common/warnings.js';
import type { ContentionEngine } from './contract/contention.js';
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
import type { LockCounts } from './contract/wait-times.js';
import { corrupt, spanOf, type TableMemory, type TableShape } from './contract/table-memory.js';
import { JavaScriptEngine, openKeyedTable } from './javascript/engine.js';
import { JavaScriptLeases } from './javascript/leases.js';
import { JavaScriptWebLockEngine } from './javascript/web-locks.js';
import { loadNativeEngine, OtherVersion } from './native/engine.js';

let javascript: Engine | undefined;
let javascriptLeases: LeaseEngine | undefined;
let javascriptWebLocks: WebLockEngine | undefined;
/** The native engine. It may belong to another evaluation of the package in this thread: see `native/engine.ts`. */
let native: ReturnType<typeof loadNativeEngine> | undefined;
let nativeLeases: LeaseEngine | undefined;
let nativeWebLocks: WebLockEngine | undefined;
let nativeFailure: unknown;
/** Set by `STRIPELOCK_ENGINE=native`: without the addon, an error is thrown instead of falling back to JavaScript. */
let nativeIsRequired = false;

/** Creates a lock on the requested engine, or on the best one available. */
export function createTable(name: EngineName | undefined, shape: TableShape): LockTable {
  const engine = name === undefined ? bestEngine() : engineNamed(name);
  return withOurErrors(() => engine.create(shape));
}

/**
 * Opens an existing lock. All threads of a lock must use the engine that it was created with. Throws a TypeError if
 * this is not the memory of a lock, and a LockError (ERR_LOCK_ENGINE) if this thread cannot use it.
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
 * The engine of leases in memory. Its leases are shared by all threads of the process if the addon loads, else limited
 * to this thread.
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

/** The managers of web locks for all threads of the process. Undefined if the addon does not load. */
export function nativeWebLockEngine(): WebLockEngine | undefined {
  const webLocks = nativeOrUndefined()?.webLocks;
  if (webLocks === undefined) return undefined;
  const { name, id } = webLocks;
  return (nativeWebLocks ??= { name, id, open: (number) => withOurErrors(() => webLocks.open(number)) });
}

/** The managers of web locks: shared by all threads of the process if the addon loads, else limited to this thread. */
export function webLockEngine(): WebLockEngine {
  const engine = nativeWebLockEngine();
  if (engine !== undefined) return engine;
  fallBack();
  return (javascriptWebLocks ??= new JavaScriptWebLockEngine());
}

/** Locks of files. Like the next three functions, this throws a LockError (ERR_LOCK_ENGINE) without the addon. */
export function processLockEngine(): ProcessLockEngine {
  return nativeFor('locks between processes need').processLocks;
}

/** Finds out which signals came from a terminal. */
export function terminalSignals(): TerminalSignals {
  return nativeFor('the senders of signals need').terminalSignals;
}

/** The counters of all locks, summed over threads. */
export function lockCounts(): LockCounts[] {
  return nativeFor('metrics of all threads need').lockCounts();
}

/** Takes profiles of all threads. */
export function contentionEngine(): ContentionEngine {
  return nativeFor('profiles of contention need').contention;
}

function nativeFor(need: string): NonNullable<typeof native> {
  const engine = nativeOrUndefined();
  if (engine) return engine;
  throw new LockError('ERR_LOCK_ENGINE', `${need} the native addon, and it could not be loaded`, {
    cause: nativeFailure,
  });
}

/**
 * The engine's clock; see {@link LeaseEngine.elapsed}. Undefined without the addon. That is not reported, because
 * callers work without this clock.
 */
export function engineClock(): (() => number) | undefined {
  try {
    return nativeOrUndefined()?.leases.elapsed;
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
 * Undefined if the addon does not load. Throws if another version of this package already uses it, or if `STRIPELOCK_ENGINE`
 * has an unknown value.
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
 * Converts errors to this evaluation's classes, because another evaluation of the package may have created the engine.
 */
function withOurErrors<T>(run: () => T): T {
  try {
    return run();
  } catch (error) {
    // An error of another realm is not an instance of this realm's Error either.
    const { name, code, message } = error as { name?: unknown; code?: string; message?: string };
    if (error instanceof LockError || name !== 'LockError') throw error;
    throw new LockError(code!, message!);
  }
}

/** Whether `STRIPELOCK_ENGINE` is `native`. A misspelt value must not permit a fallback silently. */
function readNativeIsRequired(): boolean {
  const name = fromEnvironment(({ STRIPELOCK_ENGINE }) => STRIPELOCK_ENGINE) ?? '';
  if (name === '' || name === 'native') return name !== '';
  throw new LockError(
    'ERR_LOCK_ENGINE',
    `STRIPELOCK_ENGINE must be native or empty, and is ${JSON.stringify(name)}`,
  );
}

/** Permits the JavaScript engine as a substitute for the native one, with a warning. */
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
