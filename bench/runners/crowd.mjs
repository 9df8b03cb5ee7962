// A key that is held, and a crowd of waiters for it. One thread.

import { openLock } from '../subjects/index.mjs';

/** @typedef {import('../subjects/index.mjs').Lock} Lock */

export const HELD = 'account:1234567';

/** Created once: an AbortSignal's own reason, with its stack, would cost more than everything else. */
export const CANCELLED = new Error('cancelled');

export const turn = () => new Promise((resolve) => setImmediate(resolve));

/** A key that is held, and waiters that queue for it. */
export class Crowd {
  #lock;
  /** @type {(() => void) | undefined} */
  #letGo;
  /** @type {Promise<unknown> | undefined} */
  #holder;
  /** @type {Promise<unknown>[]} */
  #requests = [];
  granted = 0;
  aborted = 0;

  /** @param {Lock} lock */
  constructor(lock) {
    this.#lock = lock;
  }

  /** Resolves when the key is held. */
  hold() {
    /** @type {Promise<void>} */
    const gate = new Promise((resolve) => {
      this.#letGo = resolve;
    });
    /** @type {Promise<void>} */
    const held = new Promise((resolve, reject) => {
      this.#holder = this.#lock.run(HELD, () => {
        resolve();
        return gate;
      });
      this.#holder.catch(reject);
    });
    return held;
  }

  /**
   * @param {number} count
   * @param {(i: number) => AbortSignal | undefined} [signalOf]
   */
  join(count, signalOf = () => undefined) {
    const settled = Promise.resolve();
    const section = () => {
      this.granted++;
      return settled;
    };
    const aborted = (/** @type {unknown} */ error) => {
      if (error !== CANCELLED) throw error;
      this.aborted++;
    };
    for (let i = 0; i < count; i++) {
      const signal = signalOf(i);
      const request = this.#lock.run(HELD, section, signal);
      this.#requests.push(signal === undefined ? request : request.catch(aborted));
    }
  }

  /** Resolves when all waiters have been granted or aborted. */
  settled() {
    return Promise.all(this.#requests);
  }

  async leave() {
    this.#letGo?.();
    await this.#holder;
    await this.settled();
  }
}

/**
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {number} stripes
 */
export async function crowdOf(subject, stripes) {
  const lock = openLock(subject, subject.create({ stripes }));
  const crowd = new Crowd(lock);
  await crowd.hold();
  return { lock, crowd };
}
