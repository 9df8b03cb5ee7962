import type { LockMode } from '../../common/types.js';
import { HOLDER_MASK, SHARED } from './lock-word.js';

/**
 * What a lock's mode admits. In TypeScript only this file knows which modes there are, and `fast-path.ts`, what the
 * fast path does for each; all other code passes modes on. The core's own table is in `native/core/lock_word.h`.
 *
 * | mode      | code | a free word becomes | a held word admits one more | its holders                 |
 * | --------- | ---- | ------------------- | --------------------------- | --------------------------- |
 * | exclusive | 0    | the thread's slot   | never                       | one, which the word names   |
 * | shared    | 1    | `SHARED + 1`        | if its flag is `SHARED`     | many, which the word counts |
 * | permit    | 2    | `SHARED + 1`        | while it has a permit left  | up to the table's limit     |
 *
 * Permits are the mode of a table with a limit (`LockTable.limit`), and of no other; it has no other mode. To users it is
 * exclusive, as a holder excludes all that go beyond the limit.
 *
 * Evaluations of this package in one thread pass modes to each other's engines. So engines compare modes by `code`, never
 * by identity.
 */
export interface Mode {
  /** The mode as users write it. */
  readonly name: LockMode;
  /** Its number for the addon and in the state of a guard: 0 … {@link MODE_MASK}. */
  readonly code: number;
  /** What the first holder writes into a free word, plus its thread's slot if the word names that. See {@link firstWord}. */
  readonly first: number;
  /** The flags of a held word that admits one more holder in this mode: these and no others. */
  readonly joins: number;
  /**
   * The word counts the holders. So each thread counts its own holds (`LockTable.shares`), and a release subtracts one.
   * If false, the word names the only holder.
   */
  readonly counted: boolean;
}

/** Flags that no word has, as they include the bits of {@link HOLDER_MASK}. */
const NO_WORD = -1;

export const EXCLUSIVE_MODE: Mode = {
  name: 'exclusive',
  code: 0,
  first: 0,
  joins: NO_WORD,
  counted: false,
};

export const SHARED_MODE: Mode = {
  name: 'shared',
  code: 1,
  first: SHARED | 1,
  joins: SHARED,
  counted: true,
};

/** As `kPermitMode` in `native/node/protocol.h`. */
export const PERMIT_CODE = 2;

export const PERMIT_MODE: Mode = {
  name: 'exclusive',
  code: PERMIT_CODE,
  first: SHARED | 1,
  joins: SHARED,
  counted: true,
};

/** The bits that codes may use. */
export const MODE_MASK = 3;

const BY_NAME: Readonly<Record<LockMode, Mode>> = { exclusive: EXCLUSIVE_MODE, shared: SHARED_MODE };
const BY_CODE: readonly Mode[] = [...Object.values(BY_NAME), PERMIT_MODE].sort((a, b) => a.code - b.code);

/** What users may write. */
export const MODE_NAMES = Object.keys(BY_NAME) as readonly LockMode[];

/** Undefined if this is not the name of a mode. */
export function modeNamed(name: unknown): Mode | undefined {
  // Each acquisition that names a mode calls this. So it searches last, in a separate function: this one stays short.
  return name === 'shared' ? SHARED_MODE : name === 'exclusive' ? EXCLUSIVE_MODE : searchMode(name);
}

function searchMode(name: unknown): Mode | undefined {
  return Object.values(BY_NAME).find((mode) => mode.name === name);
}

/** The mode whose {@link Mode.code} this is. */
export function modeCoded(code: number): Mode {
  return BY_CODE[code]!;
}

/** The mode in which a stripe with this word is held, in a table with that limit; undefined if nobody holds it. */
export function modeOfWord(word: number, limit = 1): Mode | undefined {
  if ((word & HOLDER_MASK) === 0) return undefined;
  return (word & SHARED) !== 0 ? countedMode(limit) : EXCLUSIVE_MODE;
}

/** Whether a table with that limit has permits. */
export function hasPermits(limit: number): boolean {
  return limit > 1;
}

/** The mode whose holders the words of a table with that limit count. */
export function countedMode(limit: number): Mode {
  return hasPermits(limit) ? PERMIT_MODE : SHARED_MODE;
}

/** The highest count in a word of a table with that limit. */
export function mostHolds(limit: number): number {
  return hasPermits(limit) ? limit : HOLDER_MASK;
}

/** Whether a word names its only holder. */
export function namesHolder(word: number): boolean {
  return modeOfWord(word)?.counted === false;
}

/** What the first holder writes into a free word. */
export function firstWord(mode: Mode, slot: number): number {
  return mode.counted ? mode.first : mode.first | slot;
}

/** Whether a held word admits one more holder in this mode, who then adds one to it; `most` holds are allowed. */
export function admits(word: number, mode: Mode, most = HOLDER_MASK): boolean {
  return (word & ~HOLDER_MASK) === mode.joins && (word & HOLDER_MASK) < most;
}
