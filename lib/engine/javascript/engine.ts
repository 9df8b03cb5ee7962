import { threadId } from 'node:worker_threads';
import type { Engine, LockTable } from '../engine.js';
import { createMemory } from '../header.js';
import { ENGINE_JAVASCRIPT } from '../layout.js';
import { corrupt, type TableMemory, type TableSpan } from '../table-memory.js';
import { JavaScriptTable } from './table.js';

/**
 * The engine that needs no addon: shared memory and Atomics alone. What it cannot do:
 *
 * | what                              | instead                                                                   |
 * | --------------------------------- | ------------------------------------------------------------------------- |
 * | notice that a thread ended        | what it held stays held; the waits of a terminated one stay in `stats()`  |
 * | know the waiters of other threads | `inspect()` lists this thread's own                                       |
 * | know who the shared holders are   | `inspect()` and errors name this thread, if it is one of them             |
 * | see circles of threads            | a `DeadlockError` only where a thread would wait for itself               |
 *
 * A thread is one that shares one table: a handle that came to its own thread as a copy makes another table, whose
 * shared holds this one does not know.
 */
export class JavaScriptEngine implements Engine {
  readonly name = 'javascript';
  /** A handle that is opened again in its own thread shares the table, which knows the thread's shared holds. */
  readonly #tables = new WeakMap<SharedArrayBuffer, JavaScriptTable>();

  create(stripes: number): TableMemory {
    return { arena: undefined, buffer: createMemory(ENGINE_JAVASCRIPT, stripes), offset: 0 };
  }

  open({ arena }: TableMemory, { buffer }: TableSpan, stripes: number): LockTable {
    if (arena !== undefined) throw corrupt('its memory is not for its engine');
    let table = this.#tables.get(buffer);
    if (table === undefined) {
      table = new JavaScriptTable(buffer, stripes, threadId + 1);
      this.#tables.set(buffer, table);
    }
    return table;
  }
}
