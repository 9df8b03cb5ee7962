import workerThreads from 'node:worker_threads';
import type { LockTable } from '../contract/engine.js';
import type { TableMemory } from '../contract/table-memory.js';
import { randomId } from './numbered.js';

/** A table with acquisitions that wait on the event loop. */
export interface StandsAside {
  /**
   * Call before the thread blocks, since it cannot follow wakes of its event loop while blocked. Wakes then go to other
   * threads, and stripes taken for waiters are released.
   */
  standAside(): void;
  /** Call when the thread runs again. */
  resume(): void;
  /** Call when the thread ends. */
  leave(): void;
}

/** A sync wait that may be cut off. */
export interface Blocked {
  /** Undoes the changes of the wait. If this throws, it can be called again. */
  undo(): void;
}

/**
 * The state that all copies of this package in one thread share. Each evaluation of its modules is a copy, as in a test
 * runner's module registry, or if two packages depend on it. A blocked thread releases the stripes that any copy holds
 * for waiters.
 */
interface ThreadState {
  /** All tables of this thread with pending acquisitions. */
  readonly waiting: Set<StandsAside>;
  /** The current sync wait. If other code of the thread runs while it is set, the wait was cut off. */
  blocked: Blocked | undefined;
  /** A handle that is opened again in its own thread must share the table, which knows the thread's shared holds. */
  readonly tables: WeakMap<SharedArrayBuffer, LockTable>;
  /** The locks on exact keys whose handles were read. Such a lock may be opened at any time, so it is kept forever. */
  keyed: { readonly id: readonly [number, number]; readonly tables: LockTable[] } | undefined;
  listensForEnd: boolean;
}

/** The number changes when the shared state changes. */
const NAME = Symbol.for('stripelock.javascript-engine.5');

/** The exports of Node's modules are the same objects in all realms of a thread, unlike `globalThis`. */
const home = workerThreads as { [NAME]?: ThreadState };

export const thread: ThreadState = home[NAME] ?? {
  waiting: new Set(),
  blocked: undefined,
  tables: new WeakMap(),
  keyed: undefined,
  listensForEnd: false,
};

if (home[NAME] === undefined) Object.defineProperty(home, NAME, { value: thread });

/** Notifies a table when this thread blocks or ends. */
export function addWaitingTable(table: StandsAside): void {
  thread.waiting.add(table);
  if (thread.listensForEnd) return;
  thread.listensForEnd = true;
  // Not emitted if a thread is terminated. Waiters that are not woken then find the stripe by polling.
  process.once('exit', () => {
    for (const each of thread.waiting) each.leave();
  });
}

/** Must be called before this thread uses a table: a sync wait that is still recorded was cut off. */
export function recover(): void {
  thread.blocked?.undo();
}

/** The part of a handle that identifies a lock on exact keys. */
export function localMemory(table: LockTable): TableMemory {
  thread.keyed ??= { id: randomId(), tables: [] };
  const { id, tables } = thread.keyed;
  const number = tables.push(table) - 1;
  return { arena: undefined, buffer: undefined, offset: 0, local: [...id, number] };
}
