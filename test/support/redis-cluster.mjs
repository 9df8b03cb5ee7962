import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from './free-port.mjs';
import { RedisServer } from './redis-server.mjs';
import { command } from './redis-wire.mjs';

const SLOTS = 16_384;
/** Milliseconds. */
const KNOWN_WITHIN = 30_000;

/** Three masters that share the slots. */
export class RedisCluster {
  /** @type {{ server: RedisServer, bus: number }[]} */
  nodes = [];

  static async start() {
    const cluster = new RedisCluster();
    try {
      for (let i = 0; i < 3; i++) await cluster.#addNode(i);
      await cluster.#meet();
      return cluster;
    } catch (error) {
      await cluster.stop();
      throw error;
    }
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
    // The port of the cluster's bus is usually 10,000 higher, which may not be a valid port.
    const bus = await freePort();
    const options = ['--cluster-enabled', 'yes', '--cluster-port', String(bus)];
    const server = await RedisServer.start(...options, '--cluster-node-timeout', '5000');
    this.nodes.push({ server, bus });
    const bound = (/** @type {number} */ n) => Math.floor((n * SLOTS) / 3);
    await server.command('CLUSTER', 'ADDSLOTSRANGE', bound(i), bound(i + 1) - 1);
    await server.command('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
  }

  async #meet() {
    const [first, ...others] = this.nodes;
    for (const { server, bus } of others) {
      await first.server.command('CLUSTER', 'MEET', '127.0.0.1', server.port, bus);
    }
    const until = performance.now() + KNOWN_WITHIN;
    while (performance.now() < until) {
      const infos = await this.commandAll('CLUSTER', 'INFO');
      if (infos.every((info) => /cluster_state:ok/.test(info) && /cluster_known_nodes:3/.test(info))) return;
      await delay(20);
    }
    throw new Error('the nodes of the Redis cluster did not join');
  }
}
