import { checkBoolean, checkCount, checkString, checkTimeout } from '../common/checks.js';
import { invalidArgType } from '../common/errors.js';
import type {
  KeyedLockHandle,
  KeyedLockOptions,
  StripedLockHandle,
  StripedLockOptions,
} from '../common/types.js';
import type { LockTable } from '../engine/contract/engine.js';
import type { TableMemory } from '../engine/contract/table-memory.js';
import { MAX_LIMIT, MAX_STRIPES } from '../engine/contract/layout.js';
import { createTable, openTable } from '../engine/select.js';
import { startRequestedProfile } from '../profile/requested.js';
import { resolveKeyedLockOptions, resolveLockOptions, type ResolvedLockOptions } from './options.js';

/** The properties of a lock class, `StripedLock` or `KeyedLock`. */
interface LockKind {
  readonly mark: (StripedLockHandle | KeyedLockHandle)['kind'];
  readonly name: string;
  /** Whether each key in use has a separate stripe. */
  readonly exact: boolean;
}

export const STRIPED: LockKind = { mark: 'stripelock/striped-lock', name: 'StripedLock', exact: false };
export const KEYED: LockKind = { mark: 'stripelock/keyed-lock', name: 'KeyedLock', exact: true };

/**
 * The contents of a handle: the lock's shared memory, and the settings that must be the same in all threads.
 */
interface HandleFields extends TableMemory {
  readonly kind: LockKind['mark'];
  readonly stripes: number;
  readonly limit: number;
  readonly name: string;
  readonly timeout: number;
  readonly trace: boolean;
}

/** A lock that this thread has opened: its table and its settings. Programs never see this object. */
export class OpenedLock {
  readonly table: LockTable;
  readonly name: string;
  readonly timeout: number;
  readonly trace: boolean;
  readonly #kind: LockKind;
  #handle: object | undefined;

  constructor(kind: LockKind, table: LockTable, settings: { name: string; timeout: number; trace: boolean }) {
    startRequestedProfile();
    this.#kind = kind;
    this.table = table;
    this.name = settings.name;
    this.timeout = settings.timeout;
    this.trace = settings.trace;
  }

  /**
   * Whether the value is an `OpenedLock`. Unlike `instanceof`, this runs no code of the
   * program if the value is a Proxy.
   */
  static is(value: unknown): value is OpenedLock {
    return typeof value === 'object' && value !== null && #kind in value;
  }

  /**
   * The handle with which other threads open the lock. Every read returns the same object. No other thread
   * can open the lock before the first read.
   */
  get handle(): object {
    return (this.#handle ??= Object.freeze<HandleFields>({
      kind: this.#kind.mark,
      ...this.table.memory,
      stripes: this.table.stripes,
      limit: this.table.limit,
      name: this.name,
      timeout: this.timeout,
      trace: this.trace,
    }));
  }
}

/** Reads each field of a handle once, because a getter could return another value later. */
function fieldsOf({ mark, name: of }: LockKind, handle: unknown): HandleFields {
  try {
    const { kind, arena, buffer, offset, local, stripes, limit, name, timeout, trace } =
      handle as HandleFields;
    if (typeof handle === 'object' && kind === mark) {
      return { kind, arena, buffer, offset, local, stripes, limit, name, timeout, trace };
    }
  } catch {
    // The value is null, undefined, or an object with a getter that throws. None of these is a handle.
  }
  throw invalidArgType('handle', `the handle of a ${of}`, handle);
}

/**
 * Opens the lock of a handle in this thread. Throws a TypeError or RangeError for a value that is not an
 * intact handle of this kind of lock.
 */
export function openHandle(kind: LockKind, handle: unknown): OpenedLock {
  const { arena, buffer, offset, local, name, timeout, trace, ...rest } = fieldsOf(kind, handle);
  const settings = {
    name: checkString(name, 'handle.name'),
    timeout: checkTimeout(timeout, 'handle.timeout'),
    trace: checkBoolean(trace, 'handle.trace'),
  };
  const memory: TableMemory = { arena, buffer, offset, local };
  const stripes = checkCount(rest.stripes, 'handle.stripes', MAX_STRIPES);
  const limit = checkCount(rest.limit, 'handle.limit', MAX_LIMIT);
  return new OpenedLock(
    kind,
    openTable(memory, { name: settings.name, stripes, exact: kind.exact, limit }),
    settings,
  );
}

/**
 * Creates a lock from the options of a `StripedLock`. If the argument is already an
 * opened lock, returns the argument.
 */
export function openStriped(options: StripedLockOptions | OpenedLock | undefined): OpenedLock {
  return OpenedLock.is(options) ? options : create(STRIPED, resolveLockOptions(options));
}

/** Like {@link openStriped}, for a `KeyedLock`. */
export function openKeyed(options: KeyedLockOptions | OpenedLock | undefined): OpenedLock {
  return OpenedLock.is(options) ? options : create(KEYED, resolveKeyedLockOptions(options));
}

function create(kind: LockKind, settings: ResolvedLockOptions): OpenedLock {
  const { engine, name, stripes, limit } = settings;
  return new OpenedLock(kind, createTable(engine, { name, stripes, exact: kind.exact, limit }), settings);
}
