import { LockError } from '../../common/errors.js';
import type { LockKey } from '../../common/types.js';
import type { LockTable } from '../contract/engine.js';
import { parseNote } from '../contract/note.js';
import type { FileFault, ProcessLockEngine, ProcessUse } from '../contract/process-locks.js';
import type { TableShape } from '../contract/table-memory.js';
import type { Addon } from './addon.js';

/** The number of values in each entry of the result of `processInspect`. */
const USE_ENTRY = 9;

/** Creates this thread's view of a table. The addon has provided the words of the table. */
type OpenTable = (table: number, words: Int32Array, shape: TableShape) => LockTable;

/** Opens lock files through the addon, for one thread. */
export const nativeProcessLocks = (addon: Addon, openTable: OpenTable): ProcessLockEngine => ({
  open(path, name, title, files, limit, access) {
    const opened = addon.processOpen(path, name, title, files, limit, access);
    if (opened === undefined) throw noSharedMemory();
    if (opened.length === 5) {
      const [fault, number, part, owner, mode] = opened;
      // The addon returns signed integers, but the id of a user is unsigned.
      return { fault, number, part, owner: owner >>> 0, mode };
    }
    const [file, table, words, stripes, tokens, most] = opened;
    return {
      table: openTable(table, words, { name, stripes, exact: true, limit: most }),
      token: (held) => (held.length === 0 ? 0n : tokens[held[0]!]!),
      placeOf: (key) => addon.processPlace(file, key),
      inspect: () => usesIn(addon.processInspect(file)),
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

function usesIn(flat: ReturnType<Addon['processInspect']>): ProcessUse[] | FileFault {
  if (flat.length === 2) return { fault: flat[0] as number, number: flat[1] as number };
  const uses: ProcessUse[] = [];
  for (let i = 0; i < flat.length; i += USE_ENTRY) {
    const [place, key, shared, waits, pid, threadId, since, title, note] = flat.slice(i, i + USE_ENTRY) as [
      string,
      LockKey | undefined,
      boolean,
      boolean,
      number,
      number,
      number,
      string | undefined,
      string,
    ];
    const acquiredAt = note === '' ? undefined : parseNote(note).acquiredAt;
    uses.push({ place, key, shared, waits, pid, threadId, since, title, acquiredAt });
  }
  return uses;
}
