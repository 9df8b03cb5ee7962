import { discardLease, type Lease } from '../hold/lease.js';
import type { Round } from '../wait/several.js';

/** What a round needs of the manager's grants. */
export interface RoundContext {
  /**
   * Asks once for all of the keys, and adds the leases to `taken`, in the order of the grants. The key that another owner has;
   * undefined if there is none. If not all were taken, the caller releases those that were. Adds to `unsure` each key
   * whose grant may have been lost with its answer, and removes those that were answered.
   */
  attemptAll(
    keys: readonly string[],
    owner: string,
    unsure: Set<string>,
    taken: Map<string, Lease>,
  ): Promise<string | undefined>;
  waitFor(key: string, owner: string, timeout: number, signal: AbortSignal): Promise<Lease>;
  /** What holds ask of the store while the body runs goes there together, if the store can. */
  together<T>(body: () => T): T;
  /** Frees what the owner may have been granted without an answer. Never throws. */
  giveBack(key: string, owner: string): void;
}

/** The attempts of one owner at keys of a store that must be asked. */
export class StoreRound implements Round {
  readonly #context: RoundContext;
  readonly #owner: string;
  readonly #unsure = new Set<string>();
  #asking = false;
  #ended = false;

  constructor(context: RoundContext, owner: string) {
    this.#context = context;
    this.#owner = owner;
  }

  async tryAll(keys: readonly string[]): Promise<readonly Lease[] | string> {
    this.#asking = true;
    const taken = new Map<string, Lease>();
    try {
      const refused = await this.#context.attemptAll(keys, this.#owner, this.#unsure, taken);
      if (refused === undefined) return keys.map((key) => taken.get(key)!);
      await this.release([...taken.values()]);
      return refused;
    } catch (error) {
      await this.release([...taken.values()]);
      throw error;
    } finally {
      this.#asking = false;
      if (this.#ended) this.#giveBack();
    }
  }

  waitFor(key: string, timeout: number, signal: AbortSignal): Promise<Lease> {
    return this.#context.waitFor(key, this.#owner, timeout, signal);
  }

  async release(leases: readonly Lease[]): Promise<void> {
    const reversed = [...leases].reverse();
    const results = await Promise.allSettled(this.#context.together(() => reversed.map(discardLease)));
    results.forEach((result, i) => {
      if (result.status === 'rejected') this.#context.giveBack(reversed[i]!.key, this.#owner);
    });
  }

  end(): void {
    this.#ended = true;
    if (!this.#asking) this.#giveBack();
  }

  #giveBack(): void {
    for (const key of this.#unsure) this.#context.giveBack(key, this.#owner);
    this.#unsure.clear();
  }
}
