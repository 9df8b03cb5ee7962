// The Redis server that the run's subjects share.

import { redisCommand, RedisServer } from '../../test/support/redis-server.mjs';

/** The environment variable that holds its port for the processes of a run. */
const PORT = 'STRIPELOCK_BENCH_REDIS_PORT';

/** @returns {number | undefined} Undefined if there is no server. */
export function redisPort() {
  const port = process.env[PORT];
  return port === undefined ? undefined : Number(port);
}

/**
 * Starts it, on a free port of 127.0.0.1, if one of the workloads needs it and it is installed.
 *
 * @param {readonly import('../workloads/index.mjs').Workload[]} workloads
 * @returns {Promise<() => Promise<void>>} Ends it.
 */
export async function startRedis(workloads) {
  if (redisCommand === undefined || !workloads.some(({ server }) => server === 'redis'))
    return async () => undefined;
  const server = await RedisServer.start();
  process.env[PORT] = String(server.port);
  return async () => {
    delete process.env[PORT];
    await server.stop();
  };
}
