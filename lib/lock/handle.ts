import { checkBoolean, checkCount, checkString, checkTimeout } from '../common/checks.js';
import { fromEnvironment } from '../common/environment.js';
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
import { programFile } from '../profile/program-file.js';
import type * as WholeProgramModule from '../profile/whole-program.js';
import { resolveKeyedLockOptions, resolveLockOptions, type ResolvedLockOptions } from './options.js';

/** Which class of lock a handle is of. */
interface LockKind {
  readonly mark: (StripedLockHandle | KeyedLockHandle)['kind'];
  readonly name: string;
  /** Whether each key in use has a stripe of its own. */
  readonly exact: boolean;
}

export const STRIPED: LockKind = { mark: 'stripelock/striped-lock', name: 'StripedLock', exact: false };
export const KEYED: LockKind = { mark: 'stripelock/keyed-lock', name: 'KeyedLock', exact: true };

/** What crosses threads: the shared memory, and what the locks of all threads must agree on. */
interface HandleFields extends TableMemory {
  readonly kind: LockKind['mark'];
  readonly stripes: number;
  readonly limit: number;
  readonly name: string;
  readonly timeout: number;
  readonly trace: boolean;
}

/** A lock's table, joined by this thread, and its settings. No program can get one. */
export class OpenedLock {
  readonly table: LockTable;
  readonly name: string;
  readonly timeout: number;
  readonly trace: boolean;
  readonly #kind: LockKind;
  #handle: object | undefined;

  constructor(kind: LockKind, table: LockTable, settings: { name: string; timeout: number; trace: boolean }) {
    profileIfAsked();
    this.#kind = kind;
    this.table = table;
    this.name = settings.name;
    this.timeout = settings.timeout;
    this.trace = settings.trace;
  }

  /** Whether it is one, without running code of the program, as `instanceof` would with a Proxy. */
  static is(value: unknown): value is OpenedLock {
    return typeof value === 'object' && value !== null && #kind in value;
  }

  /** The same object each time. Before the first, no other thread can open the lock. */
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

/** Reads each field once. */
function fieldsOf({ mark, name: of }: LockKind, handle: unknown): HandleFields {
  try {
    const { kind, arena, buffer, offset, local, stripes, limit, name, timeout, trace } =
      handle as HandleFields;
    if (typeof handle === 'object' && kind === mark) {
      return { kind, arena, buffer, offset, local, stripes, limit, name, timeout, trace };
    }
  } catch {
    // Null, undefined, or an object with a getter that throws: not a handle either.
  }
  throw invalidArgType('handle', `the handle of a ${of}`, handle);
}

/** Throws a TypeError if that is not a handle of a lock of this kind, or has been tampered with. */
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

type WholeProgram = typeof WholeProgramModule;

/** STRIPELOCK_PROFILE names the file of a profile of contention of the whole program. */
let isProfiled = false;
function profileIfAsked(): void {
  if (isProfiled) return;
  isProfiled = true;
  const file = fromEnvironment(({ STRIPELOCK_PROFILE }) => STRIPELOCK_PROFILE);
  if (file === undefined || file === '') return;
  import(programFile())
    .then(({ profileWholeProgram }: WholeProgram) => profileWholeProgram(file))
    .catch((error: unknown) => {
      process.emitWarning(`STRIPELOCK_PROFILE: ${String(error)}`, {
        type: 'StripelockWarning',
        code: 'STRIPELOCK_NO_PROFILE',
      });
    });
}

/** A new lock, or one that is open. */
export function openStriped(options: StripedLockOptions | OpenedLock | undefined): OpenedLock {
  return OpenedLock.is(options) ? options : create(STRIPED, resolveLockOptions(options));
}

/** The same for a KeyedLock. */
export function openKeyed(options: KeyedLockOptions | OpenedLock | undefined): OpenedLock {
  return OpenedLock.is(options) ? options : create(KEYED, resolveKeyedLockOptions(options));
}

function create(kind: LockKind, settings: ResolvedLockOptions): OpenedLock {
  const { engine, name, stripes, limit } = settings;
  return new OpenedLock(kind, createTable(engine, { name, stripes, exact: kind.exact, limit }), settings);
}
