import workerThreads from 'node:worker_threads';
import type { LockTable } from '../contract/engine.js';
import type { TableMemory } from '../contract/table-memory.js';
import { randomId } from './numbered.js';

/** A table of which acquisitions wait on the event loop. */
export interface StandsAside {
  /**
   * The thread blocks, so that it could not follow calls to its event loop: others are called instead, and what was taken for
   * those who wait is given back.
   */
  standAside(): void;
  /** The thread runs again. */
  resume(): void;
  /** The thread ends. */
  leave(): void;
}

/** A sync wait that may be cut off. */
export interface Blocked {
  /** Undoes what the wait has changed. Where this throws, it can be called again. */
  undo(): void;
}

/**
 * What all copies of this package in one thread share: each evaluation of its modules is one, as in the registry of a
 * test runner, or where two packages depend on it. A blocked thread gives back what any of them holds.
 */
interface ThreadState {
  /** All of this thread that have acquisitions pending. */
  readonly waiting: Set<StandsAside>;
  /** The sync wait under way. One that is still here when other code of the thread runs was cut off. */
  blocked: Blocked | undefined;
  /** A handle that is opened again in its own thread shares the table, which knows the thread's shared holds. */
  readonly tables: WeakMap<SharedArrayBuffer, LockTable>;
  /** The locks on exact keys whose handles were read. Such a lock may be opened at any time, so it stays here. */
  keyed: { readonly id: readonly [number, number]; readonly tables: LockTable[] } | undefined;
  listensForEnd: boolean;
}

/** The number changes with what the copies agree on. */
const NAME = Symbol.for('stripelock.javascript-engine.5');

/** The exports of a module of Node are the same object in all realms of a thread, which `globalThis` is not. */
const home = workerThreads as { [NAME]?: ThreadState };

export const thread: ThreadState = home[NAME] ?? {
  waiting: new Set(),
  blocked: undefined,
  tables: new WeakMap(),
  keyed: undefined,
  listensForEnd: false,
};

if (home[NAME] === undefined) Object.defineProperty(home, NAME, { value: thread });

/** Has a table told when this thread blocks, and when it ends. */
export function tellWaiting(table: StandsAside): void {
  thread.waiting.add(table);
  if (thread.listensForEnd) return;
  thread.listensForEnd = true;
  // Not emitted where a thread is terminated: those who are not called then look for themselves after a while.
  process.once('exit', () => {
    for (const each of thread.waiting) each.leave();
  });
}

/** To be called before this thread does anything else with a table: a sync wait that is still under way was cut off. */
export function recover(): void {
  thread.blocked?.undo();
}

/** What a handle says of a lock on exact keys. */
export function localMemory(table: LockTable): TableMemory {
  thread.keyed ??= { id: randomId(), tables: [] };
  const { id, tables } = thread.keyed;
  const number = tables.push(table) - 1;
  return { arena: undefined, buffer: undefined, offset: 0, local: [...id, number] };
}
