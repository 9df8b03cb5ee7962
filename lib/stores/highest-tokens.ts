import type { FencingToken } from '../lease/contract/lease-store.js';

/** The maximum number of keys whose last grant is remembered. */
const REMEMBERED = 10_000;

/** The last grant of a key to this client. */
interface Last {
  /** Undefined after {@link HighestTokens.ended}. */
  owner: string | undefined;
  /** The token that the owner received. */
  readonly given: FencingToken;
  /**
   * The token in the store. It is higher than `given` if a later attempt of the same owner was granted after it timed
   * out.
   */
  stored: FencingToken;
}

/** Remembers the last grant of each key, because a store that lost its data may issue lower tokens. */
export class HighestTokens {
  readonly #last = new Map<string, Last>();

  /** Returns 0 if the key is unknown or was evicted. */
  of(name: string): FencingToken {
    return this.#last.get(name)?.stored ?? 0n;
  }

  /** If the map is full, the key with the oldest grant is evicted. */
  add(name: string, owner: string, token: FencingToken): void {
    if (this.of(name) >= token) return;
    this.#last.delete(name);
    if (this.#last.size >= REMEMBERED) {
      const [oldest] = this.#last.keys();
      this.#last.delete(oldest!);
    }
    this.#last.set(name, { owner, given: token, stored: token });
  }

  /**
   * Records a grant that arrived after its attempt timed out. Returns true if the owner relies on an earlier grant of
   * the key. The late grant has then replaced the earlier one in the store, so it must not be given back. An owner relies
   * on its grant until {@link ended}. The TTL does not matter, because another thread may renew the lease.
   */
  addLate(name: string, owner: string, token: FencingToken): boolean {
    const last = this.#last.get(name);
    if (last?.owner !== owner || last.stored >= token) return false;
    last.stored = token;
    return true;
  }

  /** Maps the token of a grant to the token that the store now has for that grant. */
  storedFor(name: string, token: FencingToken): FencingToken {
    const last = this.#last.get(name);
    return last?.given === token ? last.stored : token;
  }

  /**
   * Records that a grant was released, or that the server no longer has it. An undefined `token` means any grant of the
   * owner.
   */
  ended(name: string, owner: string, token: FencingToken | undefined): void {
    const last = this.#last.get(name);
    if (last?.owner === owner && (token === undefined || token === last.given)) last.owner = undefined;
  }
}
