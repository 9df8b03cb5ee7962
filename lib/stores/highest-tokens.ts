import type { FencingToken } from '../lease/contract/lease-store.js';

/** The maximum number of remembered grants, with one grant for each key. */
const REMEMBERED = 10_000;

/** The last grant of a key to this client. */
interface Last {
  /** The owner that relies on the grant. Undefined after {@link HighestTokens.ended}, and for a group of readers. */
  owner: string | undefined;
  /** The token that the owner received. Undefined if that grant was evicted. */
  readonly given: FencingToken | undefined;
  /**
   * The token that the store has for the grant. This token is higher than `given` if another attempt of the
   * owner timed out, but the store granted that attempt.
   */
  stored: FencingToken;
}

/** Remembers the last grant of each key. A server that lost its data could otherwise issue lower tokens. */
export class HighestTokens {
  readonly #last = new Map<string, Last>();
  /** Whether a grant was evicted on which its owner may still rely. */
  #hasForgotten = false;

  /** Returns the highest known token of the key, or 0 if the key is unknown or was evicted. */
  of(name: string): FencingToken {
    return this.#last.get(name)?.stored ?? 0n;
  }

  /**
   * Records a grant. If the map is full, the key with the oldest grant is evicted. `owner`: undefined for a group of
   * readers.
   */
  add(name: string, owner: string | undefined, token: FencingToken): void {
    if (this.of(name) < token) this.#set(name, { owner, given: token, stored: token });
  }

  #set(name: string, last: Last): void {
    this.#last.delete(name);
    if (this.#last.size >= REMEMBERED) {
      const [oldest, { owner: relying }] = this.#last.entries().next().value!;
      if (relying !== undefined) this.#hasForgotten = true;
      this.#last.delete(oldest);
    }
    this.#last.set(name, last);
  }

  /**
   * Records a grant that arrived after its attempt timed out. Returns true if the owner may rely on an earlier
   * grant of the key. In that case the late grant has replaced the earlier one in the store, so the late
   * grant must not be given back. An owner relies on its grant until {@link ended}, even after its TTL,
   * because another thread may renew the lease. If the earlier grant may have been evicted, the result is also
   * true. If no owner relies on the late grant, that grant then stays until its TTL expires.
   */
  addLate(name: string, owner: string, token: FencingToken): boolean {
    const last = this.#last.get(name);
    if (last === undefined) {
      if (this.#hasForgotten) this.#set(name, { owner, given: undefined, stored: token });
      return this.#hasForgotten;
    }
    if (last.owner !== owner || last.stored >= token) return false;
    last.stored = token;
    return true;
  }

  /** Returns the token that the store now has for the grant with this token. */
  storedFor(name: string, token: FencingToken): FencingToken {
    const last = this.#last.get(name);
    return last && (last.given ?? token) === token && last.stored > token ? last.stored : token;
  }

  /**
   * Records that a grant was released, or that the server no longer has the grant. If `token` is undefined,
   * any grant of the owner counts as ended.
   */
  ended(name: string, owner: string, token: FencingToken | undefined): void {
    const last = this.#last.get(name);
    if (last?.owner !== owner) return;
    if (token === undefined || token === (last.given ?? token)) last.owner = undefined;
  }
}
