import type { LockMode } from '../../common/types.js';
import { HOLDER_MASK, SHARED } from './lock-word.js';

/**
 * The mode of an acquisition. It determines which acquisitions can hold a stripe at the same time. This file
 * and `fast-path.ts` define the modes for TypeScript. The core has a similar table in
 * `native/core/table/mode.h`.
 *
 * | mode      | code | first holder writes | another holder is admitted   | holders of the stripe      |
 * | --------- | ---- | ------------------- | ---------------------------- | -------------------------- |
 * | exclusive | 0    | its thread's slot   | never                        | one; the word has its slot |
 * | shared    | 1    | `SHARED + 1`        | if `SHARED` is the only flag | many; the word counts them |
 * | permit    | 2    | `SHARED + 1`        | the same, below the limit    | many; the word counts them |
 *
 * A table with permits (`LockTable.limit` is above 1) has only the `permit` mode; other tables never have
 * this mode. The public name of the `permit` mode is `exclusive`, because its holders exclude all
 * acquisitions beyond the limit.
 *
 * A thread may load several copies of this package, and the copies pass modes to each other's engines. So
 * engines compare modes by `code`, never by object identity.
 */
export interface Mode {
  /** The mode's public name. */
  readonly name: LockMode;
  /** The mode's number in calls of the addon and in the state of a guard: from 0 to {@link MODE_MASK}. */
  readonly code: number;
  /** The word that the first holder writes, without the holder's slot. See {@link firstWord}. */
  readonly first: number;
  /**
   * A held stripe admits another holder in this mode only if the stripe's word has exactly these flags: see
   * {@link admits}.
   */
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

/** The mode with this public name; undefined if no mode has this name. */
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

/** The mode with counted holders in a table with this limit. Each table has one such mode. */
export function countedMode(limit: number): Mode {
  return hasPermits(limit) ? PERMIT_MODE : SHARED_MODE;
}

/**
 * The maximum number of holders in {@link countedMode} that a stripe can have, in a table with this limit.
 */
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
 * Whether a held stripe with this word admits another holder in this mode. The new holder adds one to the
 * word. `most`: the maximum number of holders.
 */
export function admits(word: number, mode: Mode, most = HOLDER_MASK): boolean {
  return (word & ~HOLDER_MASK) === mode.joins && (word & HOLDER_MASK) < most;
}
