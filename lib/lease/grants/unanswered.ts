import { localNow } from '../../common/elapsed.js';
import { setTimeout } from '../../common/host.js';
import { LONGEST_DELAY } from '../../common/alarm.js';
import { PendingOperations } from '../../common/pending-operations.js';
import type { Backoff } from '../contract/options.js';

/**
 * Keys that may have been granted although the attempt failed, because the answer was lost. Each is freed, with retries
 * by the backoff, until the store has answered or such a grant would have expired. That does not keep the process
 * alive.
 */
export class Unanswered {
  readonly #free: (key: string, owner: string) => Promise<unknown>;
  readonly #backoff: Backoff;
  readonly #releases = new PendingOperations();
  #closed = false;
  #close!: () => void;
  /** Ends the pauses of keys before they are freed again. */
  readonly #closing = new Promise<void>((resolve) => (this.#close = resolve));

  /** `free`: must not free what somebody holds. */
  constructor(free: (key: string, owner: string) => Promise<unknown>, backoff: Backoff) {
    this.#free = free;
    this.#backoff = backoff;
  }

  /** Never throws; the caller need not wait. */
  add(key: string, owner: string, ttl: number): void {
    void this.#releases.add(this.#giveBack(key, owner, localNow() + ttl));
  }

  /** From now on each key is tried at most once more. Resolves when that is done, whatever the store answers. */
  close(): Promise<void> {
    this.#closed = true;
    this.#close();
    return this.#releases.settled();
  }

  async #giveBack(key: string, owner: string, endsAt: number): Promise<void> {
    const { initial, max } = this.#backoff;
    for (let pause = initial; ; pause = Math.min(2 * pause, max)) {
      const last = this.#closed;
      try {
        await this.#free(key, owner);
        return;
      } catch {
        if (last || localNow() + pause >= endsAt) return;
      }
      const paused = new Promise((resolve) => setTimeout(resolve, Math.min(pause, LONGEST_DELAY)).unref());
      await Promise.race([paused, this.#closing]);
    }
  }
}
