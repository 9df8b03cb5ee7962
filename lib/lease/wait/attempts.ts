import type { Lease } from '../hold/lease.js';

/** Who asks the store for one acquisition, however often. */
export interface Asker {
  readonly owner: string;
  /** The last attempt failed, and its grant may have been lost on the way. */
  unsure: boolean;
}

/** What attempts need of the manager's grants. */
export interface Asked {
  /** Undefined if another owner has the key. Rejects where the store fails. */
  attempt(asker: Asker): Promise<Lease | undefined>;
  /** Frees what the asker may have been granted without having heard of it. Never throws. */
  giveBack(asker: Asker): void;
}

/**
 * The attempts of one acquisition, one at a time. All are by one owner: if the reply to a grant was lost, the next
 * attempt is granted the same key again, instead of waiting for a lease that nobody has. What nobody takes is given
 * back: a lease that comes when its acquisition has ended, and what may have been granted by a last attempt that failed.
 */
export class Attempts {
  /** What the store failed with last. */
  failure: unknown;
  readonly #asked: Asked;
  readonly #asker: Asker;
  #asking = false;
  #ended = false;

  constructor(asked: Asked, owner: string) {
    this.#asked = asked;
    this.#asker = { owner, unsure: false };
  }

  /** Whether the store has not answered yet. */
  get asking(): boolean {
    return this.#asking;
  }

  /**
   * Asks once. True if there is a lease and `take` took it; a lease that it refuses is released. False if another owner
   * has the key. Rejects where the store fails.
   */
  async ask(take: (lease: Lease) => boolean): Promise<boolean> {
    this.#asking = true;
    try {
      const lease = await this.#asked.attempt(this.#asker);
      if (lease === undefined) return false;
      if (take(lease)) return true;
      lease.release().catch(() => undefined);
      return false;
    } catch (error) {
      this.failure = error;
      throw error;
    } finally {
      this.#asking = false;
      if (this.#ended) this.#giveBack();
    }
  }

  /** The acquisition has ended: nobody will ask again. */
  end(): void {
    this.#ended = true;
    if (!this.#asking) this.#giveBack();
  }

  #giveBack(): void {
    if (!this.#asker.unsure) return;
    this.#asker.unsure = false;
    this.#asked.giveBack(this.#asker);
  }
}
