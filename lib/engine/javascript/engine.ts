import { types } from 'node:util';
import { threadId } from 'node:worker_threads';
import type { Engine, LockTable } from '../contract/engine.js';
import { createMemory } from '../contract/header.js';
import { ENGINE_JAVASCRIPT } from '../contract/layout.js';
import { corrupt, type TableMemory, type TableShape, type TableSpan } from '../contract/table-memory.js';
import { createNames } from './names-memory.js';
import { JavaScriptTable } from './table.js';
import { thread } from './thread.js';

/**
 * The engine that needs no addon: it has shared memory and Atomics alone. What it cannot do:
 *
 * | what                              | instead                                                                   |
 * | --------------------------------- | ------------------------------------------------------------------------- |
 * | notice that a thread ended        | what it held stays held; the waits of a terminated one stay in `stats()`  |
 * | know the waiters of other threads | `inspect()` lists this thread's own                                       |
 * | know who the shared holders are   | `inspect()` and errors name this thread, if it is one of them             |
 * | see cycles of threads             | a `DeadlockError` only where a thread would wait for itself               |
 * | notice that a waiter died         | a stripe that is handed to one as it dies is closed for up to 20 ms; one  |
 * |                                   | that readers hold lets no more of them in for up to 2 s                   |
 * | know what a dead thread had pinned | up to 16 keys stay in use for each thread that was terminated; KeyedLock    |
 * | keep one queue for all waiters    | two lanes that take turns, so one sync and one async waiter may pass each |
 * |                                   | other; those of a thread are in order                                     |
 *
 * All locks from one handle share a table in a thread. A handle that came back to its own thread as a copy makes another
 * table, and neither knows the shared holds of the other.
 */
export class JavaScriptEngine implements Engine {
  readonly name = 'javascript';

  create(shape: TableShape): TableMemory {
    const buffer = createMemory(ENGINE_JAVASCRIPT, shape);
    return {
      arena: undefined,
      buffer,
      offset: 0,
      names: shape.exact ? createNames(shape.stripes) : undefined,
    };
  }

  open({ arena, names }: TableMemory, { buffer }: TableSpan, shape: TableShape): LockTable {
    const { stripes, exact, limit } = shape;
    if (arena !== undefined) throw corrupt('its memory is not for its engine');
    if (exact ? !types.isSharedArrayBuffer(names) : names !== undefined)
      throw corrupt('its names are not those of a lock');
    let table = thread.tables.get(buffer);
    if (table === undefined) {
      table = new JavaScriptTable(buffer, stripes, threadId + 1, { names, limit });
      thread.tables.set(buffer, table);
    }
    return table;
  }
}
