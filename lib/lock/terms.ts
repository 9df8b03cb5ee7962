import { channels } from '../common/diagnostics.js';
import { performance } from '../common/host.js';
import type { LockKey } from '../common/types.js';
import type { LockTable } from '../engine/contract/engine.js';
import { copyOfKeys, type Guard } from './guard.js';
import { noteOf } from './trace.js';

/** What an acquisition needs to know of its lock. */
export class LockContext {
  readonly name: string;
  readonly table: LockTable;
  /** Whether guards have notes; see `trace.ts`. */
  readonly trace: boolean;
  /** Of acquisitions with the lock's own timeout, and nothing else that few have. Most waiters refer to these. */
  readonly plain: Terms;

  constructor(name: string, table: LockTable, trace: boolean, timeout: number) {
    this.name = name;
    this.table = table;
    this.trace = trace;
    this.plain = { lock: this, timeout, details: undefined };
  }
}

/** All of an acquisition but its guard and its outcome. */
export interface Terms {
  readonly lock: LockContext;
  readonly timeout: number;
  readonly details: Details | undefined;
}

/** What few acquisitions have. */
export interface Details {
  /** What errors and messages show, if the guard's own keys can change while this waits. */
  readonly keys: readonly LockKey[] | undefined;
  readonly note: string | undefined;
  /** When it began, on the clock of `performance.now()`, for {@link channels}.wait; NaN if nobody listens. */
  readonly since: number;
  readonly signal: AbortSignal | undefined;
  /** Of a promise that the signal may reject. */
  reject: ((reason: unknown) => void) | undefined;
}

function detailsOf(lock: LockContext, guard: Guard, signal: AbortSignal | undefined): Details | undefined {
  const keys = copyOfKeys(guard);
  const listens = channels.wait.hasSubscribers;
  if (keys === undefined && !lock.trace && !listens && signal === undefined) return undefined;
  const note = lock.trace ? noteOf(guard) : undefined;
  return { keys, note, since: listens ? performance.now() : NaN, signal, reject: undefined };
}

export function termsOf(
  lock: LockContext,
  guard: Guard,
  timeout: number,
  signal: AbortSignal | undefined,
): Terms {
  const details = detailsOf(lock, guard, signal);
  const { plain } = lock;
  return details === undefined && timeout === plain.timeout ? plain : { lock, timeout, details };
}
