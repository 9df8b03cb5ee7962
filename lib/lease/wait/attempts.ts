import { discardLease, type Lease } from '../hold/lease.js';

/** The one that asks the store for one acquisition, in all its attempts. */
export interface Asker {
  readonly owner: string;
  /** The last attempt failed, and the answer with its grant may have been lost. */
  unsure: boolean;
}

/** What attempts need of the manager's grants. */
export interface Asked {
  /** Undefined if another owner has the key. Rejects if the store fails. */
  attempt(asker: Asker): Promise<Lease | undefined>;
  /** Frees what the asker may have been granted without an answer. Never throws. */
  giveBack(asker: Asker): void;
}

/**
 * The attempts of one acquisition, one at a time. All have one owner: if the answer with a grant was lost, the next
 * attempt is granted the same key again, instead of waiting for a lease that nobody has. What nobody takes is given
 * back: a lease that comes after its acquisition has ended, and what a failed last attempt may have been granted.
 */
export class Attempts {
  /** The store's last error. */
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
   * has the key. Rejects if the store fails.
   */
  async ask(take: (lease: Lease) => boolean): Promise<boolean> {
    this.#asking = true;
    try {
      const lease = await this.#asked.attempt(this.#asker);
      if (lease === undefined) return false;
      if (take(lease)) return true;
      discardLease(lease).catch(() => undefined);
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
