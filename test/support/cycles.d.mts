import type { LockMode, StripedLock } from 'stripelock';

export interface Refusal {
  readonly name: string;
  readonly code: string;
  readonly message: string;
  readonly keys: readonly string[];
  readonly threads: readonly number[];
  readonly stripes: readonly number[];
}

/** One round in which all threads waited for each other. */
export interface Cycle {
  /** Ids of the threads: the one at `i` held the key `i` and waited for the key of the next one. */
  readonly threads: readonly number[];
  readonly refused: readonly { readonly index: number; readonly error: Refusal }[];
  /** Milliseconds from the time when the last thread began to wait to the first refusal. */
  readonly found: number;
}

export function runCycles(
  run: (script: string, workerData: unknown) => Promise<unknown>,
  locks: readonly StripedLock[],
  keys: readonly string[],
  rounds: number,
  modes?: { mode?: LockMode; wantedMode?: LockMode },
): Promise<Cycle[]>;
