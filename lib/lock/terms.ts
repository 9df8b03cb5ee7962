import { channels } from '../common/diagnostics.js';
import { performance } from '../common/host.js';
import type { LockKey } from '../common/types.js';
import type { LockTable } from '../engine/contract/engine.js';
import { copyOfKeys, stripesOf, takenBy, type Guard } from './guard.js';
import type { KeyIndex } from './key-index.js';
import { noteOf } from './trace.js';

/** What an acquisition needs to know of its lock. */
export class LockContext {
  readonly name: string;
  readonly table: LockTable;
  /** Whether guards have notes; see `trace.ts`. */
  readonly trace: boolean;
  readonly index: KeyIndex;
  /** Of acquisitions with the lock's own timeout, and nothing else that few have. Most waiters refer to these. */
  readonly plain: Terms;

  constructor(name: string, table: LockTable, trace: boolean, timeout: number, index: KeyIndex) {
    this.name = name;
    this.table = table;
    this.trace = trace;
    this.index = index;
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
  /** For {@link channels}.wait; undefined if nobody listens. */
  readonly begun: Begun | undefined;
  readonly signal: AbortSignal | undefined;
  /** Of a promise that the signal may reject. */
  reject: ((reason: unknown) => void) | undefined;
}

/** How a wait began. */
interface Begun {
  /** When, on the clock of `performance.now()`. */
  readonly since: number;
  /** The first of the keys that was not free. */
  readonly key: LockKey;
}

/** Nothing is taken or unpinned since the fast path (keeps N4 of `exact-key-index.ts`). */
function begunOf({ index }: LockContext, guard: Guard, keys: readonly LockKey[]): Begun {
  const stripe = stripesOf(guard)[takenBy(guard)];
  const key = keys.length === 1 ? keys[0]! : keys.find((each) => index.stripeOf(each, 'key') === stripe)!;
  return { since: performance.now(), key };
}

function detailsOf(lock: LockContext, guard: Guard, signal: AbortSignal | undefined): Details | undefined {
  const keys = copyOfKeys(guard);
  const listens = channels.wait.hasSubscribers;
  if (keys === undefined && !lock.trace && !listens && signal === undefined) return undefined;
  const note = lock.trace ? noteOf(guard) : undefined;
  const begun = listens ? begunOf(lock, guard, keys ?? guard.keys) : undefined;
  return { keys, note, begun, signal, reject: undefined };
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
