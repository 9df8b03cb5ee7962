import { setTimeout as delay } from 'node:timers/promises';
import { RedisServer } from '../../support/redis-server.mjs';
import { APART, fuzz, OVERLAPPING } from './fuzz.mjs';
import { Proxy } from '../../support/proxy.mjs';
import { background } from './background.mjs';
import { canReopenSqlite } from './reopenable.mjs';

/** Milliseconds of undisturbed work. */
const WHILE = 400;

/** @typedef {import('./world.mjs').World} World */
/** @typedef {Record<string, (world: World) => Promise<void>>} Scenarios By what goes wrong in them. */

/**
 * On every store.
 *
 * @type {Scenarios}
 */
const common = {
  async 'a holder is killed'(world) {
    await world.start(3);
    for (let i = 0; i < 2; i++) {
      const holder = await world.nextHolder();
      await holder?.kill();
      await world.expectProgress();
    }
  },

  async 'a holder is stopped beyond its TTL, and goes on while another holds'(world) {
    // They hold for longer than a turn takes, so that another process holds the key when the stopped one continues.
    await world.start(4, { steps: 10, step: 12, gap: 2 });
    for (let i = 0; i < 4; i++) {
      const stopped = await world.nextHolder();
      stopped?.pause();
      await delay(world.ttl * 1.2);
      await world.nextHolder(5000, (holder) => holder !== stopped);
      stopped?.resume();
      await world.expectProgress();
      await delay(WHILE / 2);
    }
  },

  async 'the event loop of holders is blocked'(world) {
    await world.start(3, { blockFor: 2 * world.ttl, steps: 2 });
    await delay(4 * WHILE);
    await world.expectProgress();
  },

  async 'replies of some are delayed'(world) {
    const milliseconds = 0.5 * world.ttl;
    const settings = { renew: false, steps: 60, step: 8, gap: 120 };
    const slow = { ...settings, delay: milliseconds, gap: 5 };
    const proxy = world.store === 'redis' ? await proxyOf(world) : undefined;
    const [late] = await world.start(1, proxy ? { ...slow, port: proxy.port } : slow);
    if (proxy) proxy.delay = milliseconds;
    // These hold briefly, and ask often.
    await world.start(2, { ...settings, steps: 1, backoff: 10 });
    for (let i = 0; i < 4; i++) {
      await world.expectProgress([late]);
      await world.nextHolder(5000, (holder) => holder !== late);
    }
  },

  async 'the store forgets everything'(world) {
    await world.start(3);
    for (let i = 0; i < 3; i++) {
      await delay(WHILE);
      await world.forget();
      await world.expectProgress();
    }
    await delay(WHILE);
  },

  async 'two thousand wait'(world) {
    world.ttl = 1500;
    const processes = 4;
    const settings = {
      waiters: 2000 / processes,
      steps: 0,
      patience: 120_000,
      backoff: 1000,
      timeout: 20_000,
    };
    await world.start(processes, { ...settings, ttl: world.ttl });
    const ended = world.holders.map((holder) => holder.ended);
    await Promise.race([Promise.all(ended), delay(60_000, undefined, { ref: false })]);
    const { history } = await world.finish();
    const grants = history.filter(({ op }) => op === 'acquire').length;
    if (grants !== 2000) world.violations.push(`only ${grants} of 2000 were granted`);
  },

  async 'holders of overlapping keys are killed and stopped'(world) {
    await world.start(5, { ...OVERLAPPING, timeout: 1000, patience: 10_000 });
    for (let i = 0; i < 3; i++) {
      const stopped = await world.nextHolder();
      stopped?.pause();
      await delay(world.ttl * 1.2);
      await world.expectProgress(world.holders.filter((holder) => holder.isRunning && holder !== stopped));
      stopped?.resume();
      await (await world.nextHolder())?.kill();
      await world.expectProgress();
    }
  },

  async 'some want all keys, others take them one by one, and each gets them'(world) {
    const settings = { ...OVERLAPPING, timeout: 1000, patience: 10_000 };
    await world.start(4, { ...settings, together: 1, gap: 0 });
    const [all] = await world.start(1, {
      ...settings,
      keys: ['left', 'right', 'top'],
      together: 3,
      least: 3,
    });
    for (let i = 0; i < 4; i++) await world.expectProgress([all]);
    await world.expectProgress(world.holders.filter((holder) => holder !== all));
  },

  '8 processes count on 2 keys while faults come at random': (world) => fuzz(world, 5 * WHILE, APART),

  '8 processes lease overlapping keys while faults come at random': (world) =>
    fuzz(world, 5 * WHILE, OVERLAPPING),
};

/** @type {Scenarios} */
const redis = {
  async 'the server is killed, and comes back empty'(world) {
    await world.start(3);
    for (let i = 0; i < 2; i++) {
      await delay(WHILE);
      await world.lose(() => world.server.kill());
      await delay(WHILE / 2);
      await world.server.start();
      await world.expectProgress();
    }
  },

  async 'the server is paused'(world) {
    await world.start(3, { timeout: 200 });
    for (const pause of [world.ttl / 2, 1.5 * world.ttl, 3 * world.ttl]) {
      await delay(WHILE / 2);
      await world.server.command('CLIENT', 'PAUSE', String(pause), 'ALL');
      await delay(pause);
      await world.expectProgress();
      world.server.signal('SIGSTOP');
      await delay(pause);
      world.server.signal('SIGCONT');
      await world.expectProgress();
    }
  },

  async 'connections are cut'(world) {
    const proxy = await proxyOf(world);
    await world.start(3, { port: proxy.port });
    for (let i = 0; i < 8; i++) {
      await delay(WHILE / 4);
      proxy.delay = i % 2 === 0 ? 20 : 0;
      proxy.cut();
    }
    await world.expectProgress();
  },

  async 'scripts are flushed'(world) {
    await world.start(3);
    for (let i = 0; i < 20; i++) {
      await world.server.command('SCRIPT', 'FLUSH');
      await delay(WHILE / 20);
    }
    await world.expectProgress();
  },

  async 'something else is at the key'(world) {
    const manager = await world.manager({ ttl: 60_000 });
    await manager.withLease('key', async () => {
      const [, name] = (await world.server.command('KEYS', 'stripelock:*:key'))
        .split('\r\n')
        .filter((line) => line[0] !== '$');
      await world.lose(async () => {
        await world.server.command('DEL', name);
        await world.server.command('RPUSH', name, 'x');
      });
      await world.start(2, { patience: 50 });
      const holder = await world.nextHolder(WHILE);
      if (holder) world.violations.push('a lease was granted where something else was');
      await world.server.command('DEL', name);
    });
    await world.expectProgress();
  },

  async 'a replica that lags takes over'(world) {
    const primary = world.server;
    const front = await proxyOf(world);
    const link = await proxyOf(world);
    const replica = await RedisServer.start('--replicaof', '127.0.0.1', String(link.port));
    world.onClose(() => replica.stop());
    await replica.command('CONFIG', 'SET', 'repl-timeout', '600');
    const highest = async (/** @type {RedisServer} */ server) => {
      const [, bucket] = /^(stripelock:\{\d+\})\r?$/m.exec(await server.command('KEYS', '*')) ?? [];
      return bucket === undefined ? '' : server.command('GET', bucket);
    };
    await world.start(4, { port: front.port, steps: 10, step: 12, gap: 2 });
    await world.nextHolder();
    await until(async () => (await highest(replica)) !== '', 'the replica does not copy');
    // From now on nothing that the primary sends arrives.
    link.delay = 3_600_000;
    await delay(2 * WHILE);
    const behind = await highest(replica);
    await world.nextHolder();
    if (behind >= (await highest(primary))) world.violations.push('the replica did not lag');
    await world.lose(async () => {
      await primary.kill();
      link.cut();
      await replica.command('REPLICAOF', 'NO', 'ONE');
      front.target = replica.port;
      front.cut();
    });
    world.server = replica;
    await world.expectProgress();
    await delay(2 * WHILE);
    if ((await highest(replica)) <= behind) world.violations.push('the replica granted nothing');
  },

  async 'the server is a replica that only reads'(world) {
    const replica = await RedisServer.start('--replicaof', '127.0.0.1', String(world.server.port));
    world.onClose(() => replica.stop());
    const readers = await world.start(2, { port: replica.port, patience: 100 });
    const writers = await world.start(2);
    const wrong = await world.nextHolder(WHILE, (holder) => readers.includes(holder));
    if (wrong) world.violations.push('a replica granted a lease');
    await world.expectProgress(writers);
  },
};

/** @type {Scenarios} */
const sqlite = {
  async 'others have the database locked'(world) {
    await world.start(3, { timeout: 50 });
    for (const pause of [world.ttl / 4, 1.5 * world.ttl, 3 * world.ttl]) {
      await delay(WHILE / 2);
      await world.whileFree(() => world.database.exec('BEGIN IMMEDIATE'));
      await delay(pause);
      world.database.exec('COMMIT');
      await world.expectProgress();
    }
  },
};

/** @type {Record<string, Scenarios>} */
export const scenarios = {
  redis: { ...common, ...redis, ...background },
  sqlite: { ...common, ...sqlite, ...(canReopenSqlite ? background : {}) },
};

/**
 * For each planted bug, where it must be found.
 *
 * @type {Record<string, string>}
 */
export const revealing = {
  'release-without-compare': 'a holder is stopped beyond its TTL, and goes on while another holds',
  'plain-counter': 'the store forgets everything',
  'deadline-from-reply': 'replies of some are delayed',
};

/** Milliseconds in which a condition must become true, on a busy machine. */
const COMES_WITHIN = 20_000;

/**
 * @param {() => Promise<boolean>} holds
 * @param {string} otherwise
 */
async function until(holds, otherwise) {
  const end = performance.now() + COMES_WITHIN;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(otherwise);
    await delay(10);
  }
}

/** @param {World} world */
async function proxyOf(world) {
  const proxy = await Proxy.to(world.server.port);
  world.onClose(() => proxy.close());
  return proxy;
}
