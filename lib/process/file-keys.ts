import type { LockKey, StripedLockStats } from '../common/types.js';
import type { LockTable, StripeCounts } from '../engine/contract/engine.js';
import { HOLDER_MASK, SHARED } from '../engine/contract/lock-word.js';
import type { FileTerms } from '../lock/acquisition.js';
import { KEYED, OpenedLock } from '../lock/handle.js';
import { KeyedIndex } from '../lock/keyed-index.js';
import { BaseLock } from '../lock/base-lock.js';

/** The bits of a word that show its holders, without the other flags. */
const HOLDER = SHARED | HOLDER_MASK;
/**
 * The same as `kElsewhere` in `native/core/table/gate.h`: another process holds the
 * stripe, or is ahead in the queue.
 */
const ELSEWHERE = HOLDER_MASK;

/**
 * The keys of a file, as a lock for the threads of this process. It works like a `KeyedLock`, except that
 * other processes can also hold its keys.
 */
export class FileKeys extends BaseLock {
  readonly #table: LockTable;

  constructor(
    table: LockTable,
    settings: { name: string; timeout: number; trace: boolean },
    terms: FileTerms,
  ) {
    const index = new KeyedIndex(table.keys!, table.stripes, settings.name, ' in this process');
    super(new OpenedLock(KEYED, table, settings), index, terms);
    this.#table = table;
  }

  override stats(): StripedLockStats {
    return this.#table.stats();
  }

  /**
   * The counts of this process only. If another process holds the key, the key counts as free here.
   *
   * @internal
   */
  protected override countsOf(key: LockKey): StripeCounts {
    const { word, waiting } = this.#table.keys!.counts(key);
    return { word: (word & HOLDER) === ELSEWHERE ? 0 : word, waiting };
  }
}
