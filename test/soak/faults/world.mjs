import { fork } from 'node:child_process';
import { once } from 'node:events';
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
import { FencedResource } from './resource.mjs';

const HOLDER = new URL('holder.mjs', import.meta.url);
/** Milliseconds in which a holder must have come to its end when told to, on a busy machine. */
const ENDS_IN = 20_000;
const DEFAULTS = {
  keys: ['key'],
  renew: true,
  steps: 3,
  step: 10,
  gap: 10,
  blockFor: 0,
  waiters: 0,
  delay: 0,
};

/** One process that takes leases. */
class Holder {
  constructor(name, settings, resource, reads) {
    this.name = name;
    this.settings = settings;
    this.child = fork(HOLDER, [JSON.stringify(settings)], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    this.ended = once(this.child, 'exit');
    this.ready = Promise.race([once(this.child, 'message'), this.ended]);
    this.child.on('message', (message) => {
      if (message.ready) return;
      const token = BigInt(message.token);
      let result = false;
      if (message.op === 'read') {
        result = resource.read(message.key, token);
        if (result !== undefined) reads.forEach((read) => read(this));
      } else {
        result = resource.write(message.key, token, message.value);
      }
      if (this.child.connected) this.child.send({ id: message.id, result }, () => undefined);
    });
  }

  pause() {
    this.child.kill('SIGSTOP');
  }

  resume() {
    this.child.kill('SIGCONT');
  }

  async kill() {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  get isRunning() {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Undefined if it came to its end as it should. */
  async stop() {
    if (this.isRunning && this.child.connected) this.child.send('stop', () => undefined);
    const late = new AbortController();
    const result = await Promise.race([this.ended, delay(ENDS_IN, 'late', { signal: late.signal })]);
    late.abort();
    if (result !== 'late') return this.child.exitCode === 1 ? [`${this.name} crashed`] : [];
    await this.kill();
    return [`${this.name} did not end within ${ENDS_IN} ms`];
  }
}

/** A store, the processes that use it, the resource that they write to, and what goes wrong. */
export class World {
  ttl = 300;
  resource = new FencedResource();
  holders = [];
  /** When the store lost what it knew. */
  losses = [];
  /** What a scenario finds by itself. */
  violations = [];
  #reads = new Set();
  #folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-faults-'));
  #closing = [];

  static async create({ store, plant, seed }) {
    const world = new World();
    Object.assign(world, { store, plant, seed, random: randomFrom(seed) });
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

  get file() {
    return path.join(this.#folder, 'leases.db');
  }

  onClose(close) {
    this.#closing.push(close);
  }

  /** Starts so many processes, and waits until they are connected. */
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
        port: this.server?.port,
        serverPort: this.server?.port,
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

  /** The next that is about to write under a lease, or undefined if there is none for so long. */
  async nextHolder(milliseconds = 5000, wanted = () => true) {
    let read;
    const found = new Promise((resolve) => {
      read = (holder) => wanted(holder) && resolve(holder);
      this.#reads.add(read);
    });
    const late = new AbortController();
    const holder = await Promise.race([found, delay(milliseconds, undefined, { signal: late.signal })]);
    late.abort();
    this.#reads.delete(read);
    return holder;
  }

  /** Fails if nobody of these takes a lease any more. */
  async expectProgress(holders = this.holders.filter(({ isRunning }) => isRunning)) {
    const holder = await this.nextHolder(15_000, (candidate) => holders.includes(candidate));
    if (!holder) this.violations.push('nobody takes a lease any more');
  }

  /** Does what makes the store forget, and remembers when. */
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

  /** As soon as nobody has the database locked. */
  async whileFree(change) {
    this.database.exec('PRAGMA busy_timeout = 2000');
    change();
    await delay(0);
  }

  /** Ends everything. Returns what was found, and how much was done. */
  async finish() {
    const ends = await Promise.all(this.holders.map((holder) => holder.stop()));
    const history = readHistories(this.holders.map(({ settings }) => settings.history));
    const count = (op) => history.filter((entry) => entry.op === op).length;
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

  /** After a TTL nothing is left of all leases but what is known of tokens. */
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
    return left.map(({ key }) => `a row of ${key} was left`);
  }

  /** A manager in this process. */
  async manager(options) {
    if (this.store === 'sqlite')
      return new LeaseManager({ store: sqliteLeaseStore({ database: this.database }), ...options });
    const { client, close } = await redisClients.ioredis(this.server.port);
    this.onClose(close);
    const store = redisLeaseStore({ client });
    this.onClose(() => store.close());
    return new LeaseManager({ store, ...options });
  }
}
