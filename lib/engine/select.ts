import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';
import { LockError } from '../errors.js';
import type { Engine, EngineName, LockTable } from './engine.js';
import { JavaScriptEngine } from './javascript.js';
import { JavaScriptLeases } from './javascript/leases.js';
import type { LeaseEngine } from './lease-table.js';
import {
  ENGINE_INDEX,
  ENGINE_JAVASCRIPT,
  ENGINE_NATIVE,
  HEADER_INTS,
  MAGIC,
  MAGIC_INDEX,
  STRIPES_INDEX,
  VERSION,
  VERSION_INDEX,
} from './layout.js';
import { loadNativeEngine } from './native.js';
import { corrupt, spanOf, type TableMemory } from './table-memory.js';

let javascript: Engine | undefined;
let javascriptLeases: LeaseEngine | undefined;
let native: ReturnType<typeof loadNativeEngine> | undefined;
let nativeFailure: unknown;

/** A new lock on the engine asked for, or on the best there is. */
export function createTable(name: EngineName | undefined, stripes: number): LockTable {
  const engine = name === undefined ? bestEngine() : engineNamed(name);
  const memory = engine.create(stripes);
  return engine.open(memory, spanOf(memory, stripes), stripes);
}

/**
 * Joins a lock on the engine that it was made with. All its threads must use the same one. Throws a TypeError for what
 * is not the memory of a lock.
 */
export function openTable(memory: TableMemory, stripes: number): LockTable {
  const span = spanOf(memory, stripes);
  const header = new Int32Array(span.buffer, span.offset, HEADER_INTS);
  if (header[MAGIC_INDEX] !== MAGIC) throw corrupt('its memory is not that of a lock');
  if (header[VERSION_INDEX] !== VERSION) throw corrupt('it was made by another version of stripelock');
  if (header[STRIPES_INDEX] !== stripes) throw corrupt('its stripe counts differ');
  switch (header[ENGINE_INDEX]) {
    case ENGINE_NATIVE:
      return engineNamed('native').open(memory, span, stripes);
    case ENGINE_JAVASCRIPT:
      return engineNamed('javascript').open(memory, span, stripes);
    default:
      throw corrupt('its engine is unknown');
  }
}

/** Where leases are kept: with all threads of the process where the addon loads, else within this thread. */
export function leaseEngine(): LeaseEngine {
  if (nativeOrUndefined()) return native!.leases;
  warnOnce();
  return (javascriptLeases ??= new JavaScriptLeases());
}

function bestEngine(): Engine {
  if (nativeOrUndefined()) return native!;
  warnOnce();
  return engineNamed('javascript');
}

function engineNamed(name: EngineName): Engine {
  if (name === 'javascript') return (javascript ??= new JavaScriptEngine());
  const engine = nativeOrUndefined();
  if (engine) return engine;
  throw new LockError(
    'ERR_LOCK_ENGINE',
    'the native engine is needed here and its addon could not be loaded; all threads that share a lock must use the same engine',
    { cause: nativeFailure },
  );
}

function nativeOrUndefined(): typeof native {
  if (native === undefined && nativeFailure === undefined) {
    try {
      native = loadNativeEngine();
    } catch (error) {
      nativeFailure = error ?? new Error('unknown failure');
    }
  }
  return native;
}

const WARNED = 'stripelock: warned that the addon is missing';

/** One warning per process, not per thread: workers inherit their parent's environment data. */
function warnOnce(): void {
  if (getEnvironmentData(WARNED) === true) return;
  setEnvironmentData(WARNED, true);
  const reason =
    nativeFailure instanceof Error ? nativeFailure.message.split('\n')[0] : String(nativeFailure);
  process.emitWarning(
    `the native addon could not be loaded, so locks use the slower JavaScript engine. ` +
      `Run "npm rebuild stripelock" where a C++20 compiler, make and python3 are installed. (${reason})`,
    { type: 'StripelockWarning', code: 'STRIPELOCK_NO_ADDON' },
  );
}
