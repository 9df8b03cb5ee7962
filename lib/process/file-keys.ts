import type { LockKey, StripedLockStats } from '../common/types.js';
import type { LockTable, StripeCounts } from '../engine/contract/engine.js';
import { HOLDER_MASK, SHARED } from '../engine/contract/lock-word.js';
import type { FileTerms } from '../lock/acquisition.js';
import { KEYED, OpenedLock } from '../lock/handle.js';
import { KeyedIndex } from '../lock/keyed-index.js';
import { BaseLock } from '../lock/base-lock.js';

/** All bits of a word but its flags. */
const HOLDER = SHARED | HOLDER_MASK;
/** As `kElsewhere` of `native/core/table/gate.h`: other processes have the stripe. */
const ELSEWHERE = HOLDER_MASK;

/** The keys of a file as a `KeyedLock` of the threads of this process, in whose table other processes take part. */
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
   * Counts this process alone.
   *
   * @internal
   */
  protected override countsOf(key: LockKey): StripeCounts {
    const { word, waiting } = this.#table.keys!.counts(key);
    return { word: (word & HOLDER) === ELSEWHERE ? 0 : word, waiting };
  }
}
