import type { FencingToken } from '../lease/contract/lease-store.js';

/** For how many keys a client remembers the token that it was given last. */
const REMEMBERED = 10_000;

/** The highest token that a client was given of each key. A store that has lost its data may have another clock. */
export class HighestTokens {
  readonly #tokens = new Map<string, FencingToken>();

  /** 0 for a key that is not known, or was forgotten. */
  of(key: string): FencingToken {
    return this.#tokens.get(key) ?? 0n;
  }

  /** Forgets the key that has been without a new token for longest, if there are too many. */
  add(key: string, token: FencingToken): void {
    if (this.of(key) >= token) return;
    this.#tokens.delete(key);
    if (this.#tokens.size >= REMEMBERED) {
      const [oldest] = this.#tokens.keys();
      this.#tokens.delete(oldest!);
    }
    this.#tokens.set(key, token);
  }
}
