import type { LockMode } from '../../common/types.js';
import { HOLDER_MASK, SHARED } from './lock-word.js';

/**
 * A mode of a lock. It determines which holders a stripe admits at the same time. This file and
 * `fast-path.ts` define the modes for TypeScript. The core has a similar table in `native/core/table/mode.h`.
 *
 * | mode      | code | a free word becomes | a held word admits another  | its holders                 |
 * | --------- | ---- | ------------------- | --------------------------- | --------------------------- |
 * | exclusive | 0    | the thread's slot   | never                       | one, which the word names   |
 * | shared    | 1    | `SHARED + 1`        | if its flag is `SHARED`     | many, which the word counts |
 * | permit    | 2    | `SHARED + 1`        | while it has a permit left  | up to the table's limit     |
 *
 * A table with permits (`LockTable.limit` is above 1) has only the mode permit; other tables never have this
 * mode. Its public name is `exclusive`, because its holders exclude all acquisitions beyond the limit.
 *
 * Several evaluations of this package in one thread pass modes to each other's engines. So engines compare
 * modes by `code`, never by object identity.
 */
export interface Mode {
  /** The mode's public name. */
  readonly name: LockMode;
  /** The mode's number in calls of the addon and in the state of a guard: from 0 to {@link MODE_MASK}. */
  readonly code: number;
  /** The word that the first holder writes, without the holder's slot. See {@link firstWord}. */
  readonly first: number;
  /** A held word with exactly these flags admits another holder in this mode, up to the maximum count. */
  readonly joins: number;
  /**
   * Whether the word counts the holders. If true, each thread also counts its own holds (`LockTable.shares`),
   * and a release subtracts one from the word. If false, the word contains the slot of the only holder.
   */
  readonly counted: boolean;
}

/**
 * A value of {@link Mode.joins} that matches no word, because it includes the bits of {@link HOLDER_MASK}.
 */
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

/** The same number as `kPermitMode` in `native/node/protocol.h`. */
export const PERMIT_CODE = 2;

export const PERMIT_MODE: Mode = {
  name: 'exclusive',
  code: PERMIT_CODE,
  first: SHARED | 1,
  joins: SHARED,
  counted: true,
};

/** The bits that the code of a mode may use. */
export const MODE_MASK = 3;

const BY_NAME: Readonly<Record<LockMode, Mode>> = { exclusive: EXCLUSIVE_MODE, shared: SHARED_MODE };
const BY_CODE: readonly Mode[] = [...Object.values(BY_NAME), PERMIT_MODE].sort((a, b) => a.code - b.code);

/** The names of modes that users may pass. */
export const MODE_NAMES = Object.keys(BY_NAME) as readonly LockMode[];

/** The mode with this public name; undefined if no mode has it. */
export function modeNamed(name: unknown): Mode | undefined {
  // Many acquisitions call this function. The slow search is separate, so that V8 can inline this function.
  return name === 'shared' ? SHARED_MODE : name === 'exclusive' ? EXCLUSIVE_MODE : searchMode(name);
}

function searchMode(name: unknown): Mode | undefined {
  return Object.values(BY_NAME).find((mode) => mode.name === name);
}

/** The mode with this {@link Mode.code}. */
export function modeCoded(code: number): Mode {
  return BY_CODE[code]!;
}

/**
 * The mode in which a stripe with this word is held, in a table with this limit. Undefined if the stripe is
 * free.
 */
export function modeOfWord(word: number, limit = 1): Mode | undefined {
  if ((word & HOLDER_MASK) === 0) return undefined;
  return (word & SHARED) !== 0 ? countedMode(limit) : EXCLUSIVE_MODE;
}

/** Whether a table with this limit has permits. */
export function hasPermits(limit: number): boolean {
  return limit > 1;
}

/** The mode whose holders a word counts, in a table with this limit. */
export function countedMode(limit: number): Mode {
  return hasPermits(limit) ? PERMIT_MODE : SHARED_MODE;
}

/** The maximum number of holders that a word counts, in a table with this limit. */
export function mostHolds(limit: number): number {
  return hasPermits(limit) ? limit : HOLDER_MASK;
}

/** Whether a word contains the slot of its only holder. */
export function namesHolder(word: number): boolean {
  return modeOfWord(word)?.counted === false;
}

/** The word that the first holder of a stripe writes. */
export function firstWord(mode: Mode, slot: number): number {
  return mode.counted ? mode.first : mode.first | slot;
}

/**
 * Whether a stripe with this held word admits another holder in this mode. That holder adds one to the word.
 * `most`: the maximum number of holders.
 */
export function admits(word: number, mode: Mode, most = HOLDER_MASK): boolean {
  return (word & ~HOLDER_MASK) === mode.joins && (word & HOLDER_MASK) < most;
}
