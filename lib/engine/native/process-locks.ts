import { LockError } from '../../common/errors.js';
import type { LockKey } from '../../common/types.js';
import type { LockTable } from '../contract/engine.js';
import { parseNote } from '../contract/note.js';
import type {
  FileFault,
  OpenFault,
  ProcessFile,
  ProcessLockEngine,
  ProcessUse,
} from '../contract/process-locks.js';
import type { TableShape } from '../contract/table-memory.js';
import type { Addon } from './addon.js';

/** The number of values in each entry of the result of `processInspect`. */
const USE_ENTRY = 9;

/** Creates this thread's view of a table. The addon has provided the words of the table. */
type OpenTable = (table: number, words: Int32Array, shape: TableShape) => LockTable;

/** Opens lock files through the addon, for one thread. */
export class NativeProcessLocks implements ProcessLockEngine {
  readonly #addon: Addon;
  readonly #openTable: OpenTable;

  constructor(addon: Addon, openTable: OpenTable) {
    this.#addon = addon;
    this.#openTable = openTable;
  }

  open(
    path: string,
    name: string,
    title: string,
    files: number,
    limit: number,
    access: number,
  ): ProcessFile | OpenFault {
    const addon = this.#addon;
    const opened = addon.processOpen(path, name, title, files, limit, access);
    if (opened === undefined) throw noSharedMemory();
    if (opened.length === 5) {
      const [fault, number, part, owner, mode] = opened;
      // The addon returns signed integers, but the id of a user is unsigned.
      return { fault, number, part, owner: owner >>> 0, mode };
    }
    const [file, number, words, stripes, tokens, most] = opened;
    const table = this.#openTable(number, words, { name, stripes, exact: true, limit: most });
    return new NativeProcessFile(addon, file, table, tokens);
  }
}

/** The error on a host where JavaScript and native code cannot share memory, such as Electron. */
function noSharedMemory(): LockError {
  return new LockError(
    'ERR_LOCK_ENGINE',
    'this host does not let JavaScript share memory with the addon, which a ProcessLock needs',
  );
}

class NativeProcessFile implements ProcessFile {
  readonly table: LockTable;
  readonly #addon: Addon;
  readonly #file: number;
  readonly #tokens: BigUint64Array;

  constructor(addon: Addon, file: number, table: LockTable, tokens: BigUint64Array) {
    this.table = table;
    this.#addon = addon;
    this.#file = file;
    this.#tokens = tokens;
  }

  token(stripes: readonly number[]): bigint {
    return stripes.length === 0 ? 0n : this.#tokens[stripes[0]!]!;
  }

  placeOf(key: LockKey): string {
    return this.#addon.processPlace(this.#file, key);
  }

  inspect(): readonly ProcessUse[] | FileFault {
    const flat = this.#addon.processInspect(this.#file);
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

  close(): void {
    this.#addon.processClose(this.#file);
  }
}
