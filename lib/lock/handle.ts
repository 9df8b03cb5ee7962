import { checkBoolean, checkOptionsObject, checkString, checkTimeout } from '../common/checks.js';
import { invalidArgType } from '../common/errors.js';
import type { StripedLockHandle, StripedLockOptions } from '../common/types.js';
import type { LockTable } from '../engine/contract/engine.js';
import type { TableMemory } from '../engine/contract/table-memory.js';
import { createTable, openTable } from '../engine/select.js';
import { checkStripes, resolveLockOptions } from './options.js';

const KIND = 'stripelock/striped-lock';

/** What crosses threads: the shared memory, and what each thread's `StripedLock` must agree on. */
interface HandleFields extends TableMemory {
  readonly kind: typeof KIND;
  readonly stripes: number;
  readonly name: string;
  readonly timeout: number;
  readonly trace: boolean;
}

/** A lock's table, joined by this thread, and its settings. */
export class OpenedLock {
  readonly table: LockTable;
  readonly name: string;
  readonly timeout: number;
  readonly trace: boolean;
  #handle: StripedLockHandle | undefined;
  /** Distinguishes an opened lock from an object that only looks like one, without running that object's code. */
  readonly #made = true;

  private constructor(table: LockTable, settings: { name: string; timeout: number; trace: boolean }) {
    this.table = table;
    this.name = settings.name;
    this.timeout = settings.timeout;
    this.trace = settings.trace;
  }

  static is(value: unknown): value is OpenedLock {
    return typeof value === 'object' && value !== null && #made in value;
  }

  static create(options: StripedLockOptions | undefined): OpenedLock {
    const settings = resolveLockOptions(options);
    return new OpenedLock(createTable(settings.engine, settings.stripes), settings);
  }

  /** Throws a TypeError if that is not a handle, or has been tampered with. */
  static from(handle: unknown): OpenedLock {
    const { arena, buffer, offset, stripes, name, timeout, trace } = fieldsOf(handle);
    const settings = {
      name: checkString(name, 'handle.name'),
      timeout: checkTimeout(timeout, 'handle.timeout'),
      trace: checkBoolean(trace, 'handle.trace'),
    };
    const memory: TableMemory = { arena, buffer, offset };
    return new OpenedLock(openTable(memory, checkStripes(stripes, 'handle.stripes')), settings);
  }

  /** The same object each time. Before the first, no other thread can open the lock. */
  get handle(): StripedLockHandle {
    return (this.#handle ??= this.#makeHandle());
  }

  #makeHandle(): StripedLockHandle {
    const fields: HandleFields = {
      kind: KIND,
      ...this.table.memory,
      stripes: this.table.stripes,
      name: this.name,
      timeout: this.timeout,
      trace: this.trace,
    };
    return Object.freeze({ ...fields });
  }
}

/** Reads each field once. */
function fieldsOf(handle: unknown): HandleFields {
  try {
    const { kind, arena, buffer, offset, stripes, name, timeout, trace } = handle as HandleFields;
    if (typeof handle === 'object' && (kind as unknown) === KIND) {
      return { kind, arena, buffer, offset, stripes, name, timeout, trace };
    }
  } catch {
    // Null, undefined, or an object with a getter that throws: not a handle either.
  }
  throw invalidArgType('handle', 'the handle of a StripedLock', handle);
}

export function openedLock(options: StripedLockOptions | OpenedLock | undefined): OpenedLock {
  checkOptionsObject(options);
  if (OpenedLock.is(options)) return options;
  return OpenedLock.create(options);
}
