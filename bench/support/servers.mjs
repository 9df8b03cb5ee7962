// The servers that the run's subjects share, each on a free port of 127.0.0.1.

/**
 * @typedef {object} Server
 * @property {string} name As workloads name it in `server`.
 * @property {string | undefined} missing What is not installed here.
 * @property {() => Promise<{ place: string, stop: () => unknown }>} start `place`: a port or URL, for its subjects.
 */

/** The environment variable that holds the place for the processes of a run. */
const variableOf = (/** @type {string} */ name) => `STRIPELOCK_BENCH_${name.toUpperCase()}`;

/**
 * Where the server is.
 *
 * @param {string} name
 * @returns {string} Empty if it was not started.
 */
export const placeOf = (name) => process.env[variableOf(name)] ?? '';

/**
 * Why there is none, for `limit` of a subject; undefined if it was started.
 *
 * @param {Server} server
 */
export function lack({ name, missing }) {
  return placeOf(name) === '' ? `there is no ${missing ?? name}` : undefined;
}

/**
 * Starts those that one of the workloads needs, and that are installed.
 *
 * @param {readonly Server[]} servers
 * @param {readonly import('../workloads/index.mjs').Workload[]} workloads
 * @returns {Promise<() => Promise<void>>} Ends them.
 */
export async function startServers(servers, workloads) {
  /** @type {(() => unknown)[]} */
  const stops = [];
  for (const { name, missing, start } of servers) {
    if (missing !== undefined || !workloads.some(({ server }) => server === name)) continue;
    const { place, stop } = await start();
    process.env[variableOf(name)] = place;
    stops.push(() => {
      delete process.env[variableOf(name)];
      return stop();
    });
  }
  return async () => {
    for (const stop of stops) await stop();
  };
}
