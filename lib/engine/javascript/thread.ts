import workerThreads from 'node:worker_threads';
import type { LockTable } from '../contract/engine.js';
import type { TableMemory } from '../contract/table-memory.js';

/**
 * What a thread's async acquisitions do while the thread is blocked in `acquireSync`, of whatever lock. Nothing can
 * be delivered to them then, so others would wait in vain for whatever they had been given, and the thread might
 * wait for one of those: a deadlock that is nobody's fault.
 */
export interface GivesWay {
  /** Leaves the place at the head of every lane. */
  withdrawClaims(): void;
  /** Gives back all that was taken for acquisitions that are not settled yet. */
  giveBack(): void;
  /** Answers calls that this thread cannot follow, by calling others. False: none can come. */
  relayCalls(): boolean;
  readonly holdsAny: boolean;
  /** The thread runs again. */
  resume(): void;
  /** The thread ends, and can follow no more calls: calls others instead. */
  leave(): void;
}

/** A sync wait that may be cut off. */
export interface Blocked {
  /** Undoes what the wait has changed. Where this throws, it can be called again. */
  undo(): void;
}

interface KeyedTables {
  /** Random, so that no other thread or process takes a handle of this thread for its own. */
  readonly name: readonly [number, number];
  /** By number. A lock whose handle was read may be opened at any time, so it stays here. */
  readonly tables: LockTable[];
}

/**
 * What all copies of this package in one thread share: each evaluation of its modules is one, as in the registry of a
 * test runner, or where two packages depend on it. A blocked thread gives back what any of them holds.
 */
export interface ThreadState {
  /** All of this thread that have acquisitions pending, or may be called. */
  readonly joined: Set<GivesWay>;
  /** The sync wait under way. One that is still here when other code of the thread runs was cut off. */
  blocked: Blocked | undefined;
  /** A handle that is opened again in its own thread shares the table, which knows the thread's shared holds. */
  readonly tables: WeakMap<SharedArrayBuffer, LockTable>;
  /** The locks on exact keys whose handles were read. Undefined before the first. */
  keyed: KeyedTables | undefined;
  listensForEnd: boolean;
  recoverySet: boolean;
}

/** The number changes with what the copies agree on. */
const NAME = Symbol.for('stripelock.javascript-engine.4');

/** The exports of a module of Node are the same object in all realms of a thread, which `globalThis` is not. */
const home = workerThreads as { [NAME]?: ThreadState };

export const thread: ThreadState = home[NAME] ?? {
  joined: new Set(),
  blocked: undefined,
  tables: new WeakMap(),
  keyed: undefined,
  listensForEnd: false,
  recoverySet: false,
};

if (home[NAME] === undefined) Object.defineProperty(home, NAME, { value: thread });

/** What a handle says of a lock on exact keys. */
export function localMemory(table: LockTable): TableMemory {
  thread.keyed ??= { name: randomPair(), tables: [] };
  const { name, tables } = thread.keyed;
  const number = tables.push(table) - 1;
  return { arena: undefined, buffer: undefined, offset: 0, local: [...name, number] };
}

function randomPair(): [number, number] {
  const [low, high] = crypto.getRandomValues(new Int32Array(2));
  return [low!, high!];
}
