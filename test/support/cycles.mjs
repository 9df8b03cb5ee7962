// Threads that wait for each other's keys in a cycle, for tests and the soak.

/**
 * @typedef {import('./cycles.d.mts').Refusal} Refusal
 * @typedef {{ threadId: number, rounds: { start: number, end: number, refused?: Refusal }[] }} Member
 */

/**
 * Makes as many threads as there are keys wait for each other's keys, again and again. Uses the locks in turn.
 * `run(script, workerData)` runs one thread of `test/workers` to its end, and resolves to the message that it posts.
 *
 * @param {(script: string, workerData: unknown) => Promise<any>} run
 * @param {readonly import('stripelock').StripedLock[]} locks
 * @param {readonly string[]} keys
 * @param {number} rounds
 * @param {{ mode?: import('stripelock').LockMode, wantedMode?: import('stripelock').LockMode }} [modes]
 */
export async function runCycles(run, locks, keys, rounds, modes = {}) {
  const gates = Array.from({ length: rounds }, () => ({
    before: new SharedArrayBuffer(4),
    after: new SharedArrayBuffer(4),
  }));
  const handles = locks.map((lock) => lock.handle);
  /** @type {Member[]} */
  const members = await Promise.all(
    keys.map((_, index) => {
      return run('cycle.mjs', { handles, gates, threads: keys.length, index, keys, ...modes });
    }),
  );
  return gates.map((_, round) => {
    const outcomes = members.map((member) => member.rounds[round]);
    const closed = Math.max(...outcomes.map(({ start }) => start));
    const refused = outcomes.flatMap(({ refused: error }, index) => (error ? [{ index, error }] : []));
    const threads = members.map(({ threadId }) => threadId);
    return {
      threads,
      refused,
      found: Math.min(...refused.map(({ index }) => outcomes[index].end)) - closed,
    };
  });
}
