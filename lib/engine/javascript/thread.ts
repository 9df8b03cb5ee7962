import workerThreads from 'node:worker_threads';
import type { BlockedThread, GivesWay } from './blocking.js';
import type { JavaScriptTable } from './table.js';

/**
 * What all copies of this package in one thread share: each evaluation of its modules is one, as in the registry of a
 * test runner, or where two packages depend on it. A blocked thread gives back what any of them holds.
 */
export interface ThreadState {
  /** All of this thread that have acquisitions pending, or may be called. */
  readonly joined: Set<GivesWay>;
  /** The sync wait under way. One that is still here when other code of the thread runs was cut off. */
  blocked: BlockedThread | undefined;
  /** A handle that is opened again in its own thread shares the table, which knows the thread's shared holds. */
  readonly tables: WeakMap<SharedArrayBuffer, JavaScriptTable>;
  listensForEnd: boolean;
  recoverySet: boolean;
}

/** The number changes with what the copies agree on. */
const NAME = Symbol.for('stripelock.javascript-engine.2');

/** The exports of a module of Node are the same object in all realms of a thread, which `globalThis` is not. */
const home = workerThreads as { [NAME]?: ThreadState };

export const thread: ThreadState = home[NAME] ?? {
  joined: new Set(),
  blocked: undefined,
  tables: new WeakMap(),
  listensForEnd: false,
  recoverySet: false,
};

if (home[NAME] === undefined) Object.defineProperty(home, NAME, { value: thread });
