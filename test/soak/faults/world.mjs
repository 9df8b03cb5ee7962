import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Proxy } from '../../support/proxy.mjs';
import { randomFrom } from '../../workers/random.mjs';
import { check, overlapsIn } from './checker.mjs';
import { now, slowness } from './clock.mjs';
import { readHistories } from './history.mjs';
import { DEFAULTS, Holder } from './process.mjs';
import { FencedResource } from './resource.mjs';
import { loadStore } from './store-faults.mjs';

/** @typedef {import('./process.mjs').Settings} Settings */

/**
 * @typedef {object} WorldOptions
 * @property {string} store Its file in `stores`.
 * @property {number} seed
 * @property {string | undefined} [plant] A bug that the processes have.
 * @property {string | undefined} [history] The folder in which to keep what led to a violation or a broken promise.
 */

/** Milliseconds, of leases. */
const TTL = 300;
/** How many times as many rounds a planted bug has to show itself in. */
const PLANTED_ROUNDS = 5;

/** A store, the processes that use it, the resource that they write to, and what goes wrong. */
export class World {
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
   * When the server was killed, if that may lose the releases of the last moments.
   *
   * @type {import('./checker.mjs').Loss[]}
   */
  crashes = [];
  /**
   * Violations that a scenario finds itself.
   *
   * @type {string[]}
   */
  violations = [];
  /** @type {Set<(holder: Holder) => void>} */
  #reads = new Set();
  #folder;
  #keep = false;
  /** @type {(() => unknown)[]} */
  #closing = [];
  /** @type {import('./store-faults.mjs').Backend | undefined} */
  #backend;

  /**
   * @param {WorldOptions} options
   * @param {import('./store-faults.mjs').StoreFaults} kind
   */
  constructor({ store, plant, seed, history }, kind) {
    if (history !== undefined) mkdirSync(history, { recursive: true });
    this.#folder =
      history === undefined
        ? mkdtempSync(path.join(os.tmpdir(), 'stripelock-faults-'))
        : mkdtempSync(path.join(history, `${store}-${seed}-`));
    /** The folder for the servers' logs; undefined if they are not needed. */
    this.logs = history && path.join(this.#folder, 'servers');
    this.store = store;
    this.kind = kind;
    this.plant = plant;
    this.seed = seed;
    this.random = randomFrom(seed);
    this.slowness = slowness();
    this.ttl = Math.round((kind.ttl ?? TTL) * this.slowness);
  }

  /** @param {WorldOptions} options */
  static async create(options) {
    const kind = await loadStore(options.store);
    const world = new World(options, kind);
    const backend = await kind.start(world);
    world.#backend = backend;
    world.onClose(() => backend.stop());
    return world;
  }

  get backend() {
    if (this.#backend === undefined) throw new Error('the store has not started');
    return this.#backend;
  }

  /**
   * A proxy before the server at the port. It ends with the world.
   *
   * @param {number} port
   */
  async proxyTo(port) {
    const proxy = await Proxy.to(port);
    this.onClose(() => proxy.close());
    return proxy;
  }

  /** @param {() => unknown} close */
  onClose(close) {
    this.#closing.push(close);
  }

  /**
   * Starts `count` processes, and waits until they are connected. Lengths of time are those of a machine that is not busy,
   * but for those that come from the TTL.
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
        requests: this.kind.recordsRequests ? path.join(this.#folder, `${number}.requests.jsonl`) : undefined,
        place: this.backend.place,
        port: this.backend.port ?? 0,
        plant: this.plant,
        ttl: this.ttl,
        timeout: 1000,
        backoff: 25,
        patience: 2000,
        ...settings,
      };
      for (const length of /** @type {const} */ (['step', 'gap', 'timeout', 'patience'])) {
        all[length] = Math.round(all[length] * this.slowness);
      }
      const holder = new Holder(name, all, this.resource, this.#reads);
      this.holders.push(holder);
      return holder;
    });
    await Promise.all(started.map(({ ready }) => ready));
    return started;
  }

  /**
   * The next process that is about to write under a lease, or undefined if there is none within the time, which is longer
   * on a busy machine.
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
    const most = milliseconds * this.slowness;
    const holder = await Promise.race([found, delay(most, undefined, { signal: late.signal })]);
    late.abort();
    this.#reads.delete(read);
    return holder;
  }

  /**
   * Counts the rounds of a scenario. With a planted bug it ends as soon as the checker has found something, and continues for
   * longer until then: whether a single round reveals the bug depends on what else the machine does.
   *
   * @param {number} count
   */
  async *rounds(count) {
    const most = this.plant ? PLANTED_ROUNDS * count : count;
    for (let i = 0; i < most; i++) {
      const isFound = () => check(this.history(), this.resource, this.losses).length > 0;
      if (this.plant && (this.violations.length > 0 || isFound())) return;
      yield i;
    }
  }

  /** Fails if none of these takes a lease any more. */
  async expectProgress(holders = this.holders.filter(({ isRunning }) => isRunning)) {
    const holder = await this.nextHolder(15_000, (candidate) => holders.includes(candidate));
    if (!holder) this.violations.push(`nobody takes a lease any more: ${this.#lastOf(holders)}`);
  }

  /**
   * The last step of each.
   *
   * @param {readonly Holder[]} holders
   */
  #lastOf(holders) {
    return holders.flatMap(({ last }) => last).join('\n');
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

  /**
   * Kills the server, and remembers when, if releases may be lost by that.
   *
   * @param {{ kill(): Promise<unknown> }} server
   */
  async crash(server) {
    const from = now();
    await server.kill();
    if (this.kind.losesReleases) this.crashes.push({ from, to: now() });
  }

  forget() {
    return this.lose(() => this.backend.forget());
  }

  /** Ends everything. Returns what was found, what the server itself has broken, and how much was done. */
  async finish() {
    const ends = await Promise.all(this.holders.map((holder) => holder.stop()));
    const history = this.history();
    const overlaps = overlapsIn(history, this.losses);
    const requests = this.holders.flatMap(({ settings }) => settings.requests ?? []);
    /** @type {string[]} */
    const broken = [];
    const ours = [];
    for (const overlap of overlaps) {
      const how = await this.backend.brokenPromise?.(overlap, requests);
      if (how === undefined) ours.push(overlap);
      else broken.push(`${overlap.what}: ${how}`);
    }
    const count = (/** @type {string} */ op) => history.filter((entry) => entry.op === op).length;
    const violations = [
      ...this.violations,
      ...ends.flat(),
      ...history.filter(({ op }) => op === 'crashed').map(({ client, error }) => `${client}: ${error}`),
      ...check(history, this.resource, this.losses, ours, this.crashes),
      ...(this.plant ? [] : await this.#leftovers()),
    ];
    const counts = {
      grants: count('acquire'),
      writes: count('write'),
      refused: count('refused'),
      failed: count('failed'),
    };
    this.#keep = this.logs !== undefined && violations.length + broken.length > 0;
    if (this.#keep) {
      console.log(`${this.store}: kept in ${this.#folder}`);
    }
    return { violations, broken, counts, history };
  }

  /** All steps so far. */
  history() {
    return readHistories(this.holders.map(({ settings }) => settings.history));
  }

  async close() {
    for (const holder of this.holders) if (holder.isRunning) await holder.kill();
    for (const close of this.#closing.reverse()) await close();
    if (!this.#keep) rmSync(this.#folder, { recursive: true, force: true });
  }

  /** After a TTL nothing is left of all leases except the tokens. */
  async #leftovers() {
    await delay(this.ttl * 1.2);
    return this.backend.leftovers();
  }
}
