import { LockError } from '../../common/errors.js';
import type { Engine, LockTable } from '../contract/engine.js';
import { createMemory } from '../contract/header.js';
import { ENGINE_JAVASCRIPT } from '../contract/layout.js';
import { corrupt, type TableMemory, type TableShape, type TableSpan } from '../contract/table-memory.js';
import { JavaScriptTable } from './table.js';
import { thread } from './thread.js';

/**
 * The engine that works without the addon. It uses only shared memory and Atomics, so it has these limits:
 *
 * | the engine cannot                 | consequence                                                        |
 * | --------------------------------- | ------------------------------------------------------------------ |
 * | notice that a thread ended        | its stripes stay held, and `stats()` keeps counting its waits      |
 * | list waiters of other threads     | `inspect()` lists only this thread's waiters                       |
 * | identify shared holders           | `inspect()` and errors name no shared holder except this thread    |
 * | detect cycles of threads          | a `DeadlockError` is thrown only if a thread would wait for itself |
 * | notice that a waiter died         | a stripe handed to a dead waiter is blocked for up to 20 ms; after |
 * |                                   | a waiting writer died, readers wait for up to 2 s                  |
 * | share exact keys between threads  | a KeyedLock, and its permits, works only in its own thread         |
 * | survive a stack overflow unharmed | exclusion is kept, but a stripe may stay held forever              |
 *
 * The engine cannot share exact keys, because it can change only one word at a time. Adding a key to shared
 * memory takes several changes. If a thread were terminated between them, all other threads would be blocked
 * forever.
 *
 * Within a thread, all locks that were opened from one handle share a table. If a message brings a copy of a
 * handle back to its own thread, opening the copy creates a second table. Neither table counts the shared
 * holds of the other.
 */
export class JavaScriptEngine implements Engine {
  readonly name = 'javascript';

  create(shape: TableShape): LockTable {
    return tableOf(createMemory(ENGINE_JAVASCRIPT, shape), shape);
  }

  open({ arena }: TableMemory, { buffer }: TableSpan, shape: TableShape): LockTable {
    if (arena !== undefined || shape.exact) throw corrupt('its memory belongs to another engine');
    return tableOf(buffer, shape);
  }
}

function tableOf(buffer: SharedArrayBuffer, shape: TableShape): LockTable {
  let table = thread.tables.get(buffer);
  if (table === undefined) thread.tables.set(buffer, (table = new JavaScriptTable(buffer, shape)));
  return table;
}

/** Opens a lock on exact keys. Throws a LockError if another thread created the lock. */
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
      "a KeyedLock on the JavaScript engine works only in the thread that created it. Create it on the native engine, without the option engine: 'javascript'. " +
        'If the addon of that engine does not load, the warning STRIPELOCK_NO_ADDON says why, and how to compile it',
    );
  }
  const table = keyed.tables[number];
  if (table === undefined) throw corrupt('its number was not given out');
  if (table.stripes !== stripes) throw corrupt('its stripe counts differ');
  if (table.limit !== limit) throw corrupt('its limits differ');
  return table;
}
