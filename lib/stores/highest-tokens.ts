import { timerNow } from '../common/elapsed.js';
import type { FencingToken } from '../lease/contract/lease-store.js';

/** For how many keys a client remembers the token that it was given last. */
const REMEMBERED = 10_000;

/** The last grant of a key. */
interface Last {
  /** Undefined once the owner has released it. */
  owner: string | undefined;
  /** The token that the owner was given. */
  readonly given: FencingToken;
  /** The token in the store: higher if an attempt of the same owner was granted after it was given up. */
  stored: FencingToken;
  /** Until when the owner may count on it. */
  endsAt: number;
}

/** The last grant of each key to a client. A store that has lost its data may give lower tokens. */
export class HighestTokens {
  readonly #last = new Map<string, Last>();

  /** 0 for a key that is not known, or was forgotten. */
  of(name: string): FencingToken {
    return this.#last.get(name)?.stored ?? 0n;
  }

  /**
   * `length`: of the lease, in milliseconds from now. Forgets the key that has been without a new token for longest, if there
   * are too many.
   */
  add(name: string, owner: string, token: FencingToken, length: number): void {
    if (this.of(name) >= token) return;
    this.#last.delete(name);
    if (this.#last.size >= REMEMBERED) {
      const [oldest] = this.#last.keys();
      this.#last.delete(oldest!);
    }
    this.#last.set(name, { owner, given: token, stored: token, endsAt: timerNow() + length });
  }

  /** The owner's grant was renewed for `length` milliseconds from now. */
  renewed(name: string, owner: string, length: number): void {
    const last = this.#last.get(name);
    if (last?.owner === owner) last.endsAt = Math.max(last.endsAt, timerNow() + length);
  }

  /**
   * An attempt was granted after it was given up. True if the owner counts on an earlier grant: then this one stands for that
   * one in the store, and must not be given back.
   */
  addLate(name: string, owner: string, token: FencingToken): boolean {
    const last = this.#last.get(name);
    if (last?.owner !== owner || last.stored >= token || last.endsAt <= timerNow()) return false;
    last.stored = token;
    return true;
  }

  /** The token that stands in the store for a grant with this token. */
  storedFor(name: string, token: FencingToken): FencingToken {
    const last = this.#last.get(name);
    return last?.given === token ? last.stored : token;
  }

  /** The owner has released the grant with this token, or whichever it had. */
  ended(name: string, owner: string, token: FencingToken | undefined): void {
    const last = this.#last.get(name);
    if (last?.owner === owner && (token === undefined || token === last.given)) last.owner = undefined;
  }
}
