import { LockError } from '../../common/errors.js';
import type { Engine, LockTable } from '../contract/engine.js';
import { createMemory } from '../contract/header.js';
import { ENGINE_JAVASCRIPT } from '../contract/layout.js';
import { corrupt, type TableMemory, type TableShape, type TableSpan } from '../contract/table-memory.js';
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
 * | share exact keys between threads  | a KeyedLock is for the thread that made it, with its permits              |
 * | survive a stack overflow unharmed | nobody gets what others hold, but a stripe may stay held for ever         |
 *
 * A thread can be terminated between any two lines, so there is no way to change more than one word at once, which the look-up
 * of an exact key needs: whoever waits for such a thread to go on waits for ever.
 *
 * All locks from one handle share a table in a thread. A handle that came back to its own thread as a copy makes another
 * table, and neither knows the shared holds of the other.
 */
export class JavaScriptEngine implements Engine {
  readonly name = 'javascript';

  create(shape: TableShape): LockTable {
    return tableOf(createMemory(ENGINE_JAVASCRIPT, shape), shape);
  }

  open({ arena }: TableMemory, { buffer }: TableSpan, shape: TableShape): LockTable {
    if (arena !== undefined || shape.exact) throw corrupt('its memory is not for its engine');
    return tableOf(buffer, shape);
  }
}

function tableOf(buffer: SharedArrayBuffer, shape: TableShape): LockTable {
  let table = thread.tables.get(buffer);
  if (table === undefined) thread.tables.set(buffer, (table = new JavaScriptTable(buffer, shape)));
  return table;
}

/** A lock on exact keys of this thread. */
export function openKeyedTable(
  local: NonNullable<TableMemory['local']>,
  { stripes, exact, limit }: TableShape,
): LockTable {
  if (!exact || !Array.isArray(local)) throw corrupt('it is the handle of another class');
  const [low, high, number] = local;
  const { keyed } = thread;
  if (keyed === undefined || low !== keyed.id[0] || high !== keyed.id[1]) {
    throw new LockError(
      'ERR_LOCK_ENGINE',
      "a KeyedLock on the JavaScript engine works only in the thread that made it. Make it on the native engine, without the option engine: 'javascript'. " +
        'If the addon of that engine does not load, the warning STRIPELOCK_NO_ADDON says why, and how to compile it',
    );
  }
  const table = keyed.tables[number];
  if (table === undefined) throw corrupt('its number was not given out');
  if (table.stripes !== stripes) throw corrupt('its stripe counts differ');
  if (table.limit !== limit) throw corrupt('its limits differ');
  return table;
}
