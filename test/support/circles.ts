import type { LockMode, StripedLock } from 'stripelock';
import { runThreads } from './threads.js';

export interface Refusal {
  readonly name: string;
  readonly code: string;
  readonly message: string;
  readonly keys: readonly string[];
  readonly threads: readonly number[];
  readonly stripes: readonly number[];
}

/** One round in which all threads waited for each other. */
export interface Circle {
  /** Ids of the threads: the one at `i` held the key `i` and waited for the next one's. */
  readonly threads: readonly number[];
  readonly refused: readonly { readonly index: number; readonly error: Refusal }[];
  /** Milliseconds from the last thread's beginning to wait to the first refusal. */
  readonly found: number;
  /** The same, to when all had gone on. */
  readonly over: number;
}

interface Member {
  readonly threadId: number;
  readonly rounds: readonly { readonly start: number; readonly end: number; readonly refused?: Refusal }[];
}

/** Lets as many threads as there are keys wait for each other's keys, again and again. Locks are used in turn. */
export async function runCircles(
  locks: readonly StripedLock[],
  keys: readonly string[],
  rounds: number,
  modes: { mode?: LockMode; wantedMode?: LockMode } = {},
): Promise<Circle[]> {
  const gates = Array.from({ length: rounds }, () => ({
    before: new SharedArrayBuffer(4),
    after: new SharedArrayBuffer(4),
  }));
  const handles = locks.map((lock) => lock.handle);
  const members = await runThreads<Member>(
    'circle.mjs',
    keys.map((_, index) => ({ handles, gates, threads: keys.length, index, keys, ...modes })),
  );
  const threads = members.map(({ threadId }) => threadId);
  return gates.map((_, round): Circle => {
    const outcomes = members.map((member) => member.rounds[round]!);
    const closed = Math.max(...outcomes.map(({ start }) => start));
    const refused = outcomes.flatMap(({ refused: error }, index) => (error ? [{ index, error }] : []));
    return {
      threads,
      refused,
      found: Math.min(...refused.map(({ index }) => outcomes[index]!.end)) - closed,
      over: Math.max(...outcomes.map(({ end }) => end)) - closed,
    };
  });
}
