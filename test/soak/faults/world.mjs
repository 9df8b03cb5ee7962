import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { redisClients } from '../../support/redis-clients.mjs';
import { RedisServer } from '../../support/redis-server.mjs';
import { sqliteDrivers } from '../../support/sqlite-drivers.mjs';
import { randomFrom } from '../../workers/random.mjs';
import { check } from './checker.mjs';
import { now } from './clock.mjs';
import { readHistories } from './history.mjs';
import { DEFAULTS, Holder } from './process.mjs';
import { FencedResource } from './resource.mjs';

/** @typedef {import('./process.mjs').Settings} Settings */

/**
 * @typedef {object} WorldOptions
 * @property {string} store `redis` or `sqlite`.
 * @property {number} seed
 * @property {string | undefined} [plant] A bug that the processes have.
 */

/** A store, the processes that use it, the resource that they write to, and what goes wrong. */
export class World {
  ttl = 300;
  resource = new FencedResource();
  /** @type {Holder[]} */
  holders = [];
  /**
   * When the store lost its data.
   *
   * @type {import('./checker.mjs').Loss[]}
   */
  losses = [];
  /**
   * Violations that a scenario finds itself.
   *
   * @type {string[]}
   */
  violations = [];
  /** @type {Set<(holder: Holder) => void>} */
  #reads = new Set();
  #folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-faults-'));
  /** @type {(() => unknown)[]} */
  #closing = [];
  /** @type {RedisServer | undefined} */
  #server;
  /** @type {any} A database of whichever driver. */
  database;

  /** @param {WorldOptions} options */
  constructor({ store, plant, seed }) {
    this.store = store;
    this.plant = plant;
    this.seed = seed;
    this.random = randomFrom(seed);
  }

  /** @param {WorldOptions} options */
  static async create(options) {
    const world = new World(options);
    const { store } = options;
    if (store === 'redis') {
      const server = await RedisServer.start();
      world.server = server;
      world.onClose(() => server.stop());
    } else {
      world.database = sqliteDrivers[0].open(world.file);
      world.onClose(() => world.database.close());
      // The tables are made before anybody empties them.
      await sqliteLeaseStore({ database: world.database }).inspect('key');
    }
    return world;
  }

  /** Of a world on Redis. */
  get server() {
    if (this.#server === undefined) throw new Error('this world has no server');
    return this.#server;
  }

  set server(server) {
    this.#server = server;
  }

  get file() {
    return path.join(this.#folder, 'leases.db');
  }

  /** @param {() => unknown} close */
  onClose(close) {
    this.#closing.push(close);
  }

  /**
   * Starts `count` processes, and waits until they are connected.
   *
   * @param {number} count
   * @param {Partial<Settings>} [settings]
   */
  async start(count, settings = {}) {
    const started = Array.from({ length: count }, () => {
      const number = this.holders.length;
      const name = `holder ${number}`;
      const all = {
        ...DEFAULTS,
        name,
        store: this.store,
        driver: number,
        seed: this.seed + number,
        history: path.join(this.#folder, `${number}.jsonl`),
        file: this.file,
        port: this.#server?.port ?? 0,
        serverPort: this.#server?.port ?? 0,
        plant: this.plant,
        ttl: this.ttl,
        timeout: 1000,
        backoff: 25,
        patience: 2000,
        ...settings,
      };
      const holder = new Holder(name, all, this.resource, this.#reads);
      this.holders.push(holder);
      return holder;
    });
    await Promise.all(started.map(({ ready }) => ready));
    return started;
  }

  /**
   * The next process that is about to write under a lease, or undefined if there is none within the time.
   *
   * @param {number} [milliseconds]
   * @param {(holder: Holder) => boolean} [wanted]
   */
  async nextHolder(milliseconds = 5000, wanted = () => true) {
    /** @type {(holder: Holder) => void} */
    let read = () => undefined;
    /** @type {Promise<Holder>} */
    const found = new Promise((resolve) => {
      read = (holder) => void (wanted(holder) && resolve(holder));
      this.#reads.add(read);
    });
    const late = new AbortController();
    const holder = await Promise.race([found, delay(milliseconds, undefined, { signal: late.signal })]);
    late.abort();
    this.#reads.delete(read);
    return holder;
  }

  /** Fails if none of these takes a lease any more. */
  async expectProgress(holders = this.holders.filter(({ isRunning }) => isRunning)) {
    const holder = await this.nextHolder(15_000, (candidate) => holders.includes(candidate));
    if (!holder) this.violations.push('nobody takes a lease any more');
  }

  /**
   * Does what makes the store forget, and remembers when.
   *
   * @param {() => unknown} cause
   */
  async lose(cause) {
    const from = now();
    await cause();
    this.losses.push({ from, to: now() });
  }

  forget() {
    return this.lose(async () => {
      if (this.store === 'redis') await this.server.command('FLUSHALL');
      else await this.whileFree(() => this.#emptyTables());
    });
  }

  /**
   * As soon as nobody has the database locked.
   *
   * @param {() => void} change
   */
  async whileFree(change) {
    this.database.exec('PRAGMA busy_timeout = 2000');
    change();
    await delay(0);
  }

  /** Ends everything. Returns what was found, and how much was done. */
  async finish() {
    const ends = await Promise.all(this.holders.map((holder) => holder.stop()));
    const history = readHistories(this.holders.map(({ settings }) => settings.history));
    const count = (/** @type {string} */ op) => history.filter((entry) => entry.op === op).length;
    const violations = [
      ...this.violations,
      ...ends.flat(),
      ...history.filter(({ op }) => op === 'crashed').map(({ client, error }) => `${client}: ${error}`),
      ...check(history, this.resource, this.losses),
      ...(this.plant ? [] : await this.#leftovers()),
    ];
    const counts = {
      grants: count('acquire'),
      writes: count('write'),
      refused: count('refused'),
      failed: count('failed'),
    };
    return { violations, counts, history };
  }

  async close() {
    for (const holder of this.holders) if (holder.isRunning) await holder.kill();
    for (const close of this.#closing.reverse()) await close();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #emptyTables() {
    for (const table of ['stripelock_leases', 'stripelock_leases_clock', 'stripelock_counter']) {
      const made = this.database.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(table);
      if (made) this.database.exec(`DELETE FROM ${table}`);
    }
  }

  /** After a TTL nothing is left of all leases except the tokens. */
  async #leftovers() {
    await delay(this.ttl * 1.2);
    if (this.store === 'redis') {
      const names = (await this.server.command('KEYS', '*'))
        .split('\r\n')
        .filter((line) => /^[a-z]/i.test(line));
      return names.filter((name) => !/^stripelock:\{\d+\}$/.test(name)).map((name) => `${name} was left`);
    }
    // Each acquisition sweeps some of what has expired.
    const manager = new LeaseManager({ store: sqliteLeaseStore({ database: this.database }), ttl: 60_000 });
    for (let i = 0; i < 10; i++) await manager.withLease('sweep', () => undefined);
    const left = this.database.prepare('SELECT key FROM stripelock_leases').all();
    return left.map((/** @type {{ key: string }} */ { key }) => `a row of ${key} was left`);
  }

  /**
   * A manager in this process.
   *
   * @param {import('stripelock').LeaseManagerOptions} options
   */
  async manager(options) {
    if (this.store === 'sqlite')
      return new LeaseManager({ store: sqliteLeaseStore({ database: this.database }), ...options });
    const { client, close } = await redisClients.ioredis(this.server.port);
    this.onClose(close);
    const store = redisLeaseStore({ client: /** @type {any} */ (client) });
    this.onClose(() => store.close?.());
    return new LeaseManager({ store, ...options });
  }
}
