import { LockError } from '../../common/errors.js';
import type { LockTable } from '../contract/engine.js';
import { parseNote } from '../contract/note.js';
import type { ProcessLockEngine } from '../contract/process-locks.js';
import type { TableShape } from '../contract/table-memory.js';
import type { Addon } from './addon.js';

/** Creates this thread's view of a table. The addon has provided the words of the table. */
type OpenTable = (table: number, words: Int32Array, shape: TableShape) => LockTable;

/** Opens lock files through the addon, for one thread. */
export const nativeProcessLocks = (addon: Addon, openTable: OpenTable): ProcessLockEngine => ({
  open(path, name, title, files, limit, access) {
    const opened = addon.processOpen(path, name, title, files, limit, access);
    if (opened === undefined) throw noSharedMemory();
    if ('fault' in opened) return opened;
    const [file, table, words, stripes, tokens, most] = opened;
    let view: LockTable;
    try {
      view = openTable(table, words, { name, stripes, exact: true, limit: most });
    } catch (error) {
      // The stack may have overflowed.
      addon.processClose(file);
      throw error;
    }
    return {
      table: view,
      token: (held) => (held.length === 0 ? 0n : tokens[held[0]!]!),
      placeOf: (key) => addon.processPlace(file, key),
      inspect() {
        const uses = addon.processInspect(file);
        if ('fault' in uses) return uses;
        return uses.map(({ note, ...use }) => {
          return { ...use, acquiredAt: note === undefined ? undefined : parseNote(note).acquiredAt };
        });
      },
      holdersElsewhere: (key) => addon.processHolders(file, key),
      close: () => addon.processClose(file),
    };
  },
});

/** The error on a host where JavaScript and native code cannot share memory, such as Electron. */
function noSharedMemory(): LockError {
  return new LockError(
    'ERR_LOCK_ENGINE',
    'this host does not let JavaScript share memory with the addon, which a ProcessLock needs',
  );
}
