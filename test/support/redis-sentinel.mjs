import { comes, isReplicating, REPLICATING, RedisServer } from './redis-server.mjs';

/** The name of the servers, for Sentinel and its clients. */
export const SENTINEL_NAME = 'leases';

/** A server, its replica, and a Sentinel that watches them. */
export class RedisSentinel {
  primary = /** @type {RedisServer} */ (/** @type {unknown} */ (undefined));
  replica = this.primary;
  sentinel = this.primary;

  static async start() {
    const watched = new RedisSentinel();
    watched.primary = await RedisServer.start(...REPLICATING);
    watched.replica = await RedisServer.start(
      ...REPLICATING,
      '--replicaof',
      '127.0.0.1',
      String(watched.primary.port),
    );
    await isReplicating(watched.replica);
    // Only the tests start a fail-over: a server of a busy machine may be silent for seconds.
    const configuration = [
      `monitor ${SENTINEL_NAME} 127.0.0.1 ${watched.primary.port} 1`,
      `down-after-milliseconds ${SENTINEL_NAME} 60000`,
    ];
    watched.sentinel = await RedisServer.startWith(
      configuration.map((line) => `sentinel ${line}\n`).join(''),
      '--sentinel',
    );
    await watched.#knowsReplica();
    return watched;
  }

  /** The ports of the servers. */
  get ports() {
    return [this.primary.port, this.replica.port];
  }

  /** The port of the Sentinel. */
  get port() {
    return this.sentinel.port;
  }

  /** Kills the primary. Sentinel makes its replica take over. */
  async failOver() {
    await this.primary.kill();
    await this.sentinel.command('SENTINEL', 'FAILOVER', SENTINEL_NAME);
    await comes(async () => (await this.#address()).includes(`\r\n${this.replica.port}`));
    [this.primary, this.replica] = [this.replica, this.primary];
  }

  /** Starts the killed primary again, as the replica. */
  async repair() {
    await this.replica.start();
    await this.replica.command('REPLICAOF', '127.0.0.1', this.primary.port);
    await isReplicating(this.replica);
    await this.#knowsReplica();
  }

  async stop() {
    for (const server of [this.sentinel, this.primary, this.replica]) await server.stop();
  }

  #address() {
    return this.sentinel.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', SENTINEL_NAME);
  }

  async #knowsReplica() {
    await comes(async () => {
      const replicas = await this.sentinel.command('SENTINEL', 'REPLICAS', SENTINEL_NAME);
      return replicas.includes(`127.0.0.1:${this.replica.port}`) && /\r\nok\r\n/.test(replicas);
    });
  }
}
