import type { LockTable } from './engine/engine.js';
import { createTable, openTable } from './engine/select.js';
import type { TableMemory } from './engine/table-memory.js';
import { invalidArgType } from './errors.js';
import {
  checkBoolean,
  checkOptionsObject,
  checkStripes,
  checkString,
  checkTimeout,
  resolveLockOptions,
} from './options.js';
import type { StripedLockHandle, StripedLockOptions } from './types.js';

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

  private constructor(table: LockTable, settings: { name: string; timeout: number; trace: boolean }) {
    this.table = table;
    this.name = settings.name;
    this.timeout = settings.timeout;
    this.trace = settings.trace;
  }

  static create(options: StripedLockOptions | undefined): OpenedLock {
    const settings = resolveLockOptions(options);
    return new OpenedLock(createTable(settings.engine, settings.stripes), settings);
  }

  /** Throws a TypeError for what is no handle, or has been tampered with. */
  static from(handle: unknown): OpenedLock {
    if (typeof handle !== 'object' || handle === null || (handle as { kind?: unknown }).kind !== KIND) {
      throw invalidArgType('handle', 'the handle of a StripedLock', handle);
    }
    const { arena, buffer, offset, stripes, name, timeout, trace } = handle as HandleFields;
    const settings = {
      name: checkString(name, 'handle.name'),
      timeout: checkTimeout(timeout, 'handle.timeout'),
      trace: checkBoolean(trace, 'handle.trace'),
    };
    const memory: TableMemory = { arena, buffer, offset };
    return new OpenedLock(openTable(memory, checkStripes(stripes, 'handle.stripes')), settings);
  }

  get handle(): StripedLockHandle {
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

export function openedLock(options: StripedLockOptions | OpenedLock | undefined): OpenedLock {
  if (options instanceof OpenedLock) return options;
  checkOptionsObject(options);
  return OpenedLock.create(options);
}
