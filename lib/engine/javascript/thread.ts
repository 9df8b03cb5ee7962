import workerThreads from 'node:worker_threads';
import type { LockTable } from '../contract/engine.js';
import type { TableMemory } from '../contract/table-memory.js';
import { randomId } from './numbered.js';

/** A table whose async acquisitions must release their stripes when the thread blocks or ends. */
export interface StandsAside {
  /**
   * Call this before the thread blocks. The event loop of a blocked thread cannot respond to wakes. So this
   * method lets wakes go to other threads, and releases the stripes that were taken for waiters of this
   * thread.
   */
  standAside(): void;
  /** Call this when the thread runs again after it was blocked. The table then serves its waiters again. */
  resume(): void;
  /** Call this when the thread ends. */
  leave(): void;
}

/** A sync wait. A `vm` timeout may end the wait at any point. */
export interface Blocked {
  /** Undoes the changes of the wait. If this throws, it can be called again. */
  undo(): void;
}

/**
 * The state that all copies of this package in one thread share. Each evaluation of the package's modules is
 * a copy. There are several copies, for example, in a test runner with a module registry, or if the package
 * is installed twice. Before a thread blocks, it must release the stripes that any of the copies holds for
 * waiters.
 */
interface ThreadState {
  /** All tables of this thread with pending acquisitions. */
  readonly waiting: Set<StandsAside>;
  /**
   * The current sync wait. If other code of this thread runs while this field is set, a `vm` timeout has
   * ended the wait.
   */
  blocked: Blocked | undefined;
  /**
   * The tables of this thread, by their memory. If a thread opens a handle of its own lock, both locks must
   * share one table, because the table counts the thread's shared holds.
   */
  readonly tables: WeakMap<SharedArrayBuffer, LockTable>;
  /**
   * The tables on exact keys whose handles were read. Such a handle may be opened at any time, so its table
   * is kept forever.
   */
  keyed: { readonly id: readonly [number, number]; readonly tables: LockTable[] } | undefined;
  listensForEnd: boolean;
}

/** The name of the shared state. The number in it changes whenever the type of the state changes. */
const NAME = Symbol.for('stripelock.javascript-engine.5');

/**
 * The object that stores the shared state. The exports of Node's modules are the same objects in all realms
 * of a thread, unlike `globalThis`.
 */
const home = workerThreads as { [NAME]?: ThreadState };

export const thread: ThreadState = home[NAME] ?? {
  waiting: new Set(),
  blocked: undefined,
  tables: new WeakMap(),
  keyed: undefined,
  listensForEnd: false,
};

if (home[NAME] === undefined) Object.defineProperty(home, NAME, { value: thread });

/** Makes sure that the table is notified when this thread blocks or ends. */
export function addWaitingTable(table: StandsAside): void {
  thread.waiting.add(table);
  if (thread.listensForEnd) return;
  thread.listensForEnd = true;
  // The event is not emitted if a thread is terminated. In that case, waiters of other threads are not woken,
  // and detect the free stripe by polling.
  process.once('exit', () => {
    for (const each of thread.waiting) each.leave();
  });
}

/**
 * Call this before this thread uses a table. If `thread.blocked` is set, it is a sync wait that a `vm`
 * timeout has ended. This function then undoes the changes of that wait.
 */
export function recover(): void {
  thread.blocked?.undo();
}

/** Returns the part of a handle that identifies a lock on exact keys. Keeps the lock's table forever. */
export function localMemory(table: LockTable): TableMemory {
  thread.keyed ??= { id: randomId(), tables: [] };
  const { id, tables } = thread.keyed;
  const number = tables.push(table) - 1;
  return { arena: undefined, buffer: undefined, offset: 0, local: [...id, number] };
}
