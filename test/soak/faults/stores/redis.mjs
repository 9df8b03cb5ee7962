import { setTimeout as delay } from 'node:timers/promises';
import { redisLeaseStore } from 'stripelock/redis';
import { redisClients } from '../../../support/redis-clients.mjs';
import { comes, REDIS_ADVICE, redisCommand, RedisServer } from '../../../support/redis-server.mjs';
import { command } from '../../../support/redis-wire.mjs';
import { below } from '../../../workers/random.mjs';
import { WHILE } from '../clock.mjs';
import { connectionsAreCut, pauseForRandomTime, somethingElseIsAtTheKey } from '../server-scenarios.mjs';

/** @typedef {keyof typeof redisClients} Library */

const libraries = /** @type {Library[]} */ (Object.keys(redisClients));

class RedisBackend {
  /** @type {(() => unknown)[]} */
  #closing = [];

  /** @param {RedisServer} server */
  constructor(server) {
    this.server = server;
    this.#closing.push(() => server.stop());
  }

  get port() {
    return this.server.port;
  }

  /** The server behind all proxies. */
  get place() {
    return this.server.port;
  }

  async connect() {
    const { client, close } = await redisClients.ioredis(this.port);
    this.#closing.push(close);
    const store = redisLeaseStore({ client });
    this.#closing.push(() => store.close());
    return store;
  }

  /** Another server, which copies the one at the port. @param {number} port */
  async replicaOf(port) {
    const replica = await RedisServer.start('--replicaof', '127.0.0.1', String(port));
    this.#closing.push(() => replica.stop());
    return replica;
  }

  forget() {
    return this.server.command('FLUSHALL');
  }

  async leftovers() {
    const names = (await this.server.command('KEYS', '*'))
      .split('\r\n')
      .filter((line) => /^[a-z]/i.test(line));
    // The highest tokens of buckets, and for a day the keys whose leases expired without a release.
    const stays = /^stripelock:\{\d+\}(?:!.*)?$/;
    return names.filter((name) => !stays.test(name)).map((name) => `${name} was left`);
  }

  async stop() {
    for (const close of this.#closing.reverse()) await close();
  }
}

/**
 * @param {number} port
 * @returns {import('../store-faults.mjs').Backdoor}
 */
function backdoor(port) {
  return {
    async remove(key) {
      const names = (await command(port, 'KEYS', `stripelock:*:${key}`)).split('\r\n');
      const name = names.find((line) => line.startsWith('stripelock:'));
      return name !== undefined && (await command(port, 'DEL', name)) === ':1';
    },
    count: async (key) => BigInt((await command(port, 'INCR', `counter:${key}`)).slice(1)),
  };
}

/** A store that another thread can open again. @param {import('../process.mjs').Settings} settings */
async function openReopenable({ port, driver, timeout }) {
  const choice = driver % (libraries.length + 1);
  if (choice === libraries.length) {
    const url = `redis://127.0.0.1:${port}`;
    return { store: redisLeaseStore({ url, timeout }), close: () => undefined };
  }
  const { client, close } = await redisClients[libraries[choice]](port);
  const clientModule = new URL('../../../workers/redis-client.mjs', import.meta.url);
  clientModule.searchParams.set('library', libraries[choice]);
  clientModule.searchParams.set('port', String(port));
  return { store: redisLeaseStore({ client, clientModule, timeout }), close };
}

/** @type {import('../store-faults.mjs').StoreFaults<RedisBackend>} */
export default {
  title: 'the Redis store',
  missing: redisCommand === undefined ? { what: 'redis-server', advice: REDIS_ADVICE } : undefined,
  reopens: true,

  start: async () => new RedisBackend(await RedisServer.start()),

  async open(settings) {
    const { port, place, driver, timeout, background } = settings;
    const aside = () => backdoor(/** @type {number} */ (place));
    if (background) return { ...(await openReopenable(settings)), backdoor: aside };
    const { client, close } = await redisClients[libraries[driver % libraries.length]](port);
    return { store: redisLeaseStore({ client, timeout }), backdoor: aside, close };
  },

  scenarios: {
    async 'the server is killed, and comes back empty'(world, { server }) {
      await world.start(3);
      for (let i = 0; i < 2; i++) {
        await delay(WHILE);
        await world.lose(() => server.kill());
        await delay(WHILE / 2);
        await server.start();
        await world.expectProgress();
      }
    },

    async 'the server is paused'(world, { server }) {
      await world.start(3, { timeout: 200 });
      for (const pause of [world.ttl / 2, 1.5 * world.ttl, 3 * world.ttl]) {
        await delay(WHILE / 2);
        await server.command('CLIENT', 'PAUSE', String(pause), 'ALL');
        await delay(pause);
        await world.expectProgress();
        server.signal('SIGSTOP');
        await delay(pause);
        server.signal('SIGCONT');
        await world.expectProgress();
      }
    },

    'connections are cut': connectionsAreCut,

    async 'scripts are flushed'(world, { server }) {
      await world.start(3);
      for (let i = 0; i < 20; i++) {
        await server.command('SCRIPT', 'FLUSH');
        await delay(WHILE / 20);
      }
      await world.expectProgress();
    },

    'something else is at the key': (world, backend) =>
      somethingElseIsAtTheKey(world, backend, async () => {
        const { server } = backend;
        const [, name] = (await server.command('KEYS', 'stripelock:*:key'))
          .split('\r\n')
          .filter((line) => line[0] !== '$');
        await world.lose(async () => {
          await server.command('DEL', name);
          await server.command('RPUSH', name, 'x');
        });
        return () => server.command('DEL', name);
      }),

    async 'a replica that lags takes over'(world, backend) {
      const primary = backend.server;
      const front = await world.proxyTo(primary.port);
      const link = await world.proxyTo(primary.port);
      const replica = await backend.replicaOf(link.port);
      await replica.command('CONFIG', 'SET', 'repl-timeout', '600');
      const highest = async (/** @type {RedisServer} */ server) => {
        const [, bucket] = /^(stripelock:\{\d+\})\r?$/m.exec(await server.command('KEYS', '*')) ?? [];
        return bucket === undefined ? '' : server.command('GET', bucket);
      };
      await world.start(4, { port: front.port, steps: 10, step: 12, gap: 2 });
      await world.nextHolder();
      await comes(async () => (await highest(replica)) !== '');
      // From now on nothing that the primary sends arrives.
      link.delay = 3_600_000;
      await delay(2 * WHILE);
      const behind = await highest(replica);
      await comes(async () => (await highest(primary)) > behind);
      await world.lose(async () => {
        await primary.kill();
        link.cut();
        await replica.command('REPLICAOF', 'NO', 'ONE');
        front.target = replica.port;
        front.cut();
      });
      backend.server = replica;
      await world.expectProgress();
      await comes(async () => (await highest(replica)) > behind);
    },

    async 'the server is a replica that only reads'(world, backend) {
      const replica = await backend.replicaOf(backend.port);
      const readers = await world.start(2, { port: replica.port, patience: 100 });
      const writers = await world.start(2);
      const wrong = await world.nextHolder(WHILE, (holder) => readers.includes(holder));
      if (wrong) world.violations.push('a replica granted a lease');
      await world.expectProgress(writers);
    },
  },

  faults: [
    (_world, { server }) => server.command('SCRIPT', 'FLUSH'),
    (world, { server }) => server.command('CLIENT', 'PAUSE', String(below(world.random, world.ttl)), 'ALL'),
    (world, { server }) => pauseForRandomTime(world, server),
    async (world, { server }) => {
      await world.lose(() => server.kill());
      await server.start();
    },
  ],
};
