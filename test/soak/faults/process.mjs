import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { slowness } from './clock.mjs';
import { lineOf, readHistories } from './history.mjs';

const HOLDER = new URL('holder.mjs', import.meta.url);
const RECORDER = new URL('record-requests.mjs', import.meta.url);
/** Milliseconds in which a holder must end, once it neither waits for a lease nor holds one. */
const ENDS_IN = 20_000;

/**
 * The settings of one process. Lengths of time are in milliseconds.
 *
 * @typedef {object} Settings
 * @property {string} name
 * @property {number} seed
 * @property {string} store
 * @property {number} driver The index of the client library or the driver among the available ones.
 * @property {string} history The file that it writes its history to.
 * @property {string | undefined} requests The file that it writes its requests over HTTP to.
 * @property {unknown} place Where the store is, as its file in `stores` says it.
 * @property {number} port The server's, or a proxy's; 0 without a server.
 * @property {string | undefined} plant
 * @property {string[]} keys
 * @property {number} together The most keys of one lease.
 * @property {number} least The fewest.
 * @property {number} limit How many may have a key at once.
 * @property {number} shared The part of its leases that are shared: 0 for none, 1 for all.
 * @property {boolean} relay Whether it takes its next lease before it releases one, if the next is granted at once.
 * @property {number} ttl
 * @property {boolean} renew
 * @property {boolean} background Whether its leases are renewed while its event loop is blocked.
 * @property {number} maxHold Of leases that are renewed in the background.
 * @property {number} steps How often it counts under a lease.
 * @property {number} step The pause between steps; at most twice as long.
 * @property {number} gap The same between leases.
 * @property {number} blockFor Now and then it blocks its event loop for this long at most.
 * @property {number} waiters How many acquisitions it starts at once. 0: one after the other, until it is stopped.
 * @property {number} delay Of the store's replies, without a proxy.
 * @property {number} timeout Of the store's requests.
 * @property {number} backoff
 * @property {number} patience Of an acquisition.
 */

/** @satisfies {Partial<Settings>} */
export const DEFAULTS = {
  keys: ['key'],
  together: 1,
  least: 1,
  limit: 1,
  shared: 0,
  relay: false,
  renew: true,
  background: false,
  maxHold: 60_000,
  steps: 3,
  step: 10,
  gap: 10,
  blockFor: 0,
  waiters: 0,
  delay: 0,
};

/** One process that takes leases. */
export class Holder {
  /**
   * @param {string} name
   * @param {Settings} settings
   * @param {import('./resource.mjs').FencedResource} resource
   * @param {ReadonlySet<(holder: Holder) => void>} reads Told when it is about to write under a lease.
   */
  constructor(name, settings, resource, reads) {
    this.name = name;
    this.settings = settings;
    const { requests } = settings;
    this.child = fork(HOLDER, [JSON.stringify(settings)], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      // Also in threads, which inherit it.
      ...(requests !== undefined && {
        execArgv: [...process.execArgv, '--import', RECORDER.href],
        env: { ...process.env, STRIPELOCK_REQUESTS: requests },
      }),
    });
    this.ended = once(this.child, 'exit');
    this.ready = Promise.race([once(this.child, 'message'), this.ended]);
    this.child.on('message', (/** @type {any} */ message) => {
      if (message.ready) return;
      const token = BigInt(message.token);
      /** @type {number | boolean | undefined} */
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

  /** The last entries of its history, a line each. */
  get last() {
    return readHistories([this.settings.history]).slice(-12).map(lineOf);
  }

  /** Asks the holder to end after its turn, and waits until it has ended. Returns the violations. */
  async stop() {
    if (this.isRunning && this.child.connected) this.child.send('stop', () => undefined);
    const late = new AbortController();
    // It may have to wait for its lease first, and then to hold it. The settings grew with the slowness when it started.
    const { patience, steps, step } = this.settings;
    const most = ENDS_IN * slowness() + patience + 2 * steps * step;
    const result = await Promise.race([this.ended, delay(most, 'late', { signal: late.signal })]);
    late.abort();
    if (result !== 'late') return this.child.exitCode === 1 ? [`${this.name} crashed`] : [];
    await this.kill();
    return [`${this.name} did not end within ${Math.round(most)} ms:\n${this.last.join('\n')}`];
  }
}
