import type { Lease } from '../hold/lease.js';

/** Who asks the store for one acquisition, however often. */
export interface Asker {
  readonly owner: string;
  /** The last attempt failed: its grant may have been lost on the way. */
  unsure: boolean;
}

/** What attempts need of what the manager holds. */
export interface Asked {
  attempt(asker: Asker): Promise<Lease | undefined>;
  /** Frees what the asker may have been granted without having heard of it. Never throws. */
  giveBack(asker: Asker): void;
}

/**
 * The attempts of one acquisition, one at a time. All are by one owner: if the reply to a grant was lost, the next
 * attempt is granted the same key again, instead of waiting for a lease that nobody has. What is unsure at the end is
 * given back.
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

  /** Whether the store is to answer still. */
  get asking(): boolean {
    return this.#asking;
  }

  /** Undefined if another owner has it. Rejects where the store fails. */
  async ask(): Promise<Lease | undefined> {
    this.#asking = true;
    try {
      return await this.#asked.attempt(this.#asker);
    } catch (error) {
      this.failure = error;
      throw error;
    } finally {
      this.#asking = false;
      if (this.#ended) this.#giveBack();
    }
  }

  /** Nobody asks any more. */
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
