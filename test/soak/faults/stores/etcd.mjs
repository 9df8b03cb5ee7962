import { setTimeout as delay } from 'node:timers/promises';
import { etcdLeaseStore } from 'stripelock/etcd';
import { ask, base64, ETCD_ADVICE, EtcdCluster, hasEtcd } from '../../../support/etcd-server.mjs';
import { below } from '../../../workers/random.mjs';
import { WHILE } from '../clock.mjs';
import { endedEarly, readRequests } from '../etcd-promises.mjs';
import {
  connectionsAreCut,
  serverIsKilled,
  serverIsPaused,
  pauseForRandomTime,
} from '../server-scenarios.mjs';

/** @typedef {import('../store-faults.mjs').World} World */

const SERVERS = 3;
/** Milliseconds that an acquisition waits where the servers must choose a leader. */
const PATIENCE = 8000;
/** Milliseconds until everything that was left has expired: whole seconds, which end late. */
const EXPIRES_WITHIN = 20_000;
/** Milliseconds of pauses: shorter than an election takes, about as long, and beyond every lease. */
const PAUSES = [300, 1000, 3000];
/** Milliseconds, of leases that outlast an election, and how often the leader is paused for longer. */
const LONG_TTL = 1950;
const LONG_PAUSES = 4;

/** The prefix of all keys. */
const EVERYTHING = { key: base64('\0'), range_end: base64('\0') };
const LEASES = { key: base64('stripelock/lease/'), range_end: base64('stripelock/lease0') };

/**
 * Asks whichever server answers.
 *
 * @param {readonly number[]} ports
 * @param {string} path
 * @param {object} body
 * @returns {Promise<any>}
 */
async function askAny(ports, path, body) {
  const until = performance.now() + EXPIRES_WITHIN;
  for (let i = 0; performance.now() < until; i++) {
    const answer = await ask(ports[i % ports.length], path, body).catch(() => ({ error: true }));
    if (answer.error === undefined) return answer;
    await delay(20);
  }
  throw new Error('no etcd server answers');
}

class EtcdBackend {
  /** @type {(() => unknown)[]} */
  #closing = [];
  /**
   * The servers' agreed entries before each time that they lost them.
   *
   * @type {ReturnType<EtcdCluster['agreed']>[]}
   */
  #lost = [];

  /** @param {EtcdCluster} cluster */
  constructor(cluster) {
    this.cluster = cluster;
    this.#closing.push(() => cluster.stop());
  }

  get port() {
    return this.cluster.port;
  }

  get place() {
    return this.cluster.nodes.map(({ port }) => port);
  }

  connect() {
    const store = etcdLeaseStore({ endpoints: this.cluster.endpoints });
    this.#closing.push(() => store.close());
    return store;
  }

  forget() {
    return askAny(this.place, 'kv/deleterange', EVERYTHING);
  }

  async leftovers() {
    /** @type {string[]} */
    let left = [];
    const until = performance.now() + EXPIRES_WITHIN;
    do {
      const { kvs = [] } = await askAny(this.place, 'kv/range', { ...LEASES, keys_only: true });
      const { leases = [] } = await askAny(this.place, 'lease/leases', {});
      const keys = kvs.map((/** @type {{ key: string }} */ { key }) => Buffer.from(key, 'base64'));
      left = keys.map((/** @type {Buffer} */ key) => `${key} was left`);
      if (leases.length > 0) left.push(`${leases.length} etcd leases were left`);
      if (left.length > 0) await delay(100);
    } while (left.length > 0 && performance.now() < until);
    return left;
  }

  wipe() {
    return this.cluster.wipe(() => this.#lost.push(this.cluster.agreed()));
  }

  /**
   * @param {import('../checker.mjs').Overlap} overlap
   * @param {readonly string[]} requests
   */
  async brokenPromise(overlap, requests) {
    const asked = readRequests(requests);
    const early = [...this.#lost, this.cluster.agreed()]
      .map((agreed) => endedEarly(overlap, asked, agreed))
      .find((found) => found !== undefined);
    if (early === undefined) return undefined;
    const { lease, left, term, proposer, leader } = early;
    const nodes = await this.cluster.byId();
    const nameOf = (/** @type {bigint | undefined} */ id) =>
      (id === undefined ? undefined : nodes.get(id)?.name) ?? 'a server';
    return (
      `nobody asked to end the etcd lease ${lease}, but ${nameOf(proposer)} did, in the term ${term}, ` +
      `in which ${nameOf(leader)} led, at least ${left.toFixed(1)} ms too early`
    );
  }

  /** A server that does not lead. */
  async follower() {
    const leader = await this.cluster.leader();
    const followers = this.cluster.nodes.filter((node) => node.isRunning && node !== leader);
    return followers[0] ?? leader;
  }

  async stop() {
    for (const close of this.#closing.reverse()) await close();
  }
}

/**
 * @param {import('../../../support/etcd-server.mjs').EtcdNode} node
 * @param {number} milliseconds
 */
async function pause(node, milliseconds) {
  node.signal('SIGSTOP');
  await delay(milliseconds);
  node.signal('SIGCONT');
}

/** @type {import('../store-faults.mjs').StoreFaults<EtcdBackend>} */
export default {
  title: 'the etcd store',
  missing: hasEtcd ? undefined : { what: 'etcd', advice: ETCD_ADVICE },
  recordsRequests: true,
  reopens: true,
  // Just below a whole second, so that the servers keep a lease for little longer than its holder does.
  ttl: 950,

  start: async ({ logs }) => new EtcdBackend(await EtcdCluster.start(SERVERS, [], logs)),

  async open({ port, place, timeout }) {
    const ports = /** @type {number[]} */ (place);
    // With a proxy, only through the proxy.
    const reached = ports.includes(port) ? ports : [port];
    const endpoints = reached.map((one) => `http://127.0.0.1:${one}`);
    return {
      store: etcdLeaseStore({ endpoints, timeout }),
      close: () => undefined,
      backdoor: () => ({
        async remove(key) {
          const name = base64(`stripelock/lease/${key}`);
          const { deleted = 0 } = await askAny(ports, 'kv/deleterange', { key: name });
          return Number(deleted) > 0;
        },
        async count(key) {
          const counter = { key: base64(`counter/${key}`), value: '', prev_kv: true };
          const { prev_kv } = await askAny(ports, 'kv/put', counter);
          return BigInt(prev_kv?.version ?? 0) + 1n;
        },
      }),
    };
  },

  scenarios: {
    async 'the leader is killed, and comes back'(world, { cluster }) {
      await world.start(4, { patience: PATIENCE });
      for (let i = 0; i < 2; i++) {
        await delay(WHILE);
        const leader = await cluster.leader();
        await leader.kill();
        await world.expectProgress();
        cluster.startNode(leader);
        await world.expectProgress();
      }
    },

    async 'the leader is paused, and goes on as if it still led'(world, { cluster }) {
      await world.start(4, { patience: PATIENCE });
      for (const milliseconds of PAUSES) {
        await delay(WHILE);
        await pause(await cluster.leader(), milliseconds);
        await world.expectProgress();
      }
    },

    async 'the leader is paused for longer than a TTL, while others keep leases that it knows'(
      world,
      { cluster },
    ) {
      // They outlast an election, and hold for longer than a pause. A paused leader cannot end leases that it does not
      // know.
      world.ttl = Math.round(LONG_TTL * world.slowness);
      const settings = { keys: ['left', 'right', 'top'], steps: 700, step: 10, gap: 5, timeout: 200 };
      await world.start(6, { ...settings, patience: PATIENCE });
      for (let i = 0; i < LONG_PAUSES; i++) {
        await delay(WHILE);
        await pause(await cluster.leader(), 1.1 * world.ttl + below(world.random, 1000));
        await world.expectProgress();
      }
    },

    async 'a follower is paused, and clients go to another server'(world, backend) {
      await world.start(4, { patience: PATIENCE });
      for (const milliseconds of PAUSES) {
        await delay(WHILE);
        const follower = await backend.follower();
        follower.signal('SIGSTOP');
        await delay(milliseconds);
        await world.expectProgress();
        follower.signal('SIGCONT');
      }
    },

    async 'the majority is killed, without which nobody is granted anything, and comes back'(
      world,
      { cluster },
    ) {
      await world.start(3, { patience: PATIENCE });
      await delay(WHILE);
      await Promise.all(cluster.nodes.slice(1).map((node) => node.kill()));
      // Earlier grants have ended by then, locally.
      await delay(1.2 * world.ttl);
      const holder = await world.nextHolder(2 * world.ttl);
      if (holder) world.violations.push('a minority granted a lease');
      for (const node of cluster.nodes.slice(1)) cluster.startNode(node);
      await world.expectProgress();
    },

    'all are killed, and come back with their data': (world, { cluster }) => serverIsKilled(world, cluster),

    async 'all data is lost, and revisions begin anew'(world, backend) {
      await world.start(3, { patience: PATIENCE });
      for (let i = 0; i < 2; i++) {
        await delay(WHILE);
        await world.nextHolder();
        await world.lose(() => backend.wipe());
        await world.expectProgress();
      }
    },

    'all are paused': (world, { cluster }) => serverIsPaused(world, cluster),

    'connections are cut': connectionsAreCut,
  },

  faults: [
    async (world, { cluster }) => pause(await cluster.leader(), below(world.random, 3 * world.ttl)),
    async (world, backend) => pause(await backend.follower(), below(world.random, 3 * world.ttl)),
    async (world, { cluster }) => {
      const leader = await cluster.leader();
      await leader.kill();
      await delay(below(world.random, 2 * world.ttl));
      cluster.startNode(leader);
    },
    async (world, { cluster }) => {
      const most = [...cluster.nodes].sort(() => world.random() - 0.5).slice(1);
      await Promise.all(most.map((node) => node.kill()));
      await delay(below(world.random, world.ttl));
      await cluster.start();
    },
    (world, { cluster }) => pauseForRandomTime(world, cluster),
    (world, backend) => world.lose(() => backend.wipe()),
  ],
};
