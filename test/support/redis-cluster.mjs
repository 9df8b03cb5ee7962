import { freePort } from './free-port.mjs';
import { comes, isReplicating, REPLICATING, RedisServer } from './redis-server.mjs';
import { command } from './redis-wire.mjs';

const SLOTS = 16_384;
const MASTERS = 3;

/**
 * Starts a server that is a cluster by itself. `bus` is the port through which other nodes reach it: a server takes the
 * one that is 10,000 higher than its own unless it is told another, and that one may be in use.
 *
 * @param {...string} extra Options.
 */
export async function startNode(...extra) {
  const bus = await freePort();
  const server = await RedisServer.start('--cluster-enabled', 'yes', '--cluster-port', String(bus), ...extra);
  return { server, bus };
}

/** Three masters that share the slots. The first of them may have a replica. */
export class RedisCluster {
  /** @type {{ server: RedisServer, bus: number }[]} */
  nodes = [];

  /** `hasReplica`: whether there is a fourth node, the `replica` of the `primary`, which serves the lowest slots. */
  static async start({ hasReplica = false } = {}) {
    const cluster = new RedisCluster();
    try {
      for (let i = 0; i < MASTERS + (hasReplica ? 1 : 0); i++) await cluster.#addNode(i);
      await cluster.#meet();
      if (hasReplica) {
        const id = (await cluster.primary.command('CLUSTER', 'MYID')).split('\r\n')[1];
        await cluster.replica.command('CLUSTER', 'REPLICATE', id);
        await isReplicating(cluster.replica);
      }
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  get primary() {
    return this.nodes[0].server;
  }

  get replica() {
    return this.nodes[MASTERS].server;
  }

  /** Kills the primary. Its replica takes over. */
  async failOver() {
    await this.primary.kill();
    await this.replica.command('CLUSTER', 'FAILOVER', 'TAKEOVER');
    [this.nodes[0], this.nodes[MASTERS]] = [this.nodes[MASTERS], this.nodes[0]];
    await comes(async () => /role:master/.test(await this.primary.command('INFO', 'replication')));
  }

  /** Starts the killed primary again. It becomes the replica. */
  async repair() {
    await this.replica.start();
    await isReplicating(this.replica);
  }

  /** @returns {number[]} */
  get ports() {
    return this.nodes.map(({ server }) => server.port);
  }

  /**
   * Sends a command to every node. Resolves to the replies, in the order of the nodes.
   *
   * @param {...(string | number | bigint)} parts
   */
  commandAll(...parts) {
    return Promise.all(this.ports.map((port) => command(port, ...parts)));
  }

  async stop() {
    for (const { server } of this.nodes) await server.stop();
  }

  /** @param {number} i */
  async #addNode(i) {
    const { server, bus } = await startNode('--cluster-node-timeout', '5000', ...REPLICATING);
    this.nodes.push({ server, bus });
    if (i >= MASTERS) return;
    const bound = (/** @type {number} */ n) => Math.floor((n * SLOTS) / MASTERS);
    await server.command('CLUSTER', 'ADDSLOTSRANGE', bound(i), bound(i + 1) - 1);
    await server.command('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
  }

  async #meet() {
    const [first, ...others] = this.nodes;
    for (const { server, bus } of others) {
      await first.server.command('CLUSTER', 'MEET', '127.0.0.1', server.port, bus);
    }
    const known = new RegExp(`cluster_state:ok[^]*cluster_known_nodes:${this.nodes.length}\\b`);
    await comes(async () => (await this.commandAll('CLUSTER', 'INFO')).every((info) => known.test(info)));
  }
}
