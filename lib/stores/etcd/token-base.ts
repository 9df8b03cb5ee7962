import type { Cluster } from './cluster.js';
import { base64, fromBase64, isAbsent, kvOf, put, range, type KeyValue } from './messages.js';
import type { Operation } from './operation.js';

const NANOSECONDS = 1_000_000n;

/**
 * What tokens are counted from: the time, in nanoseconds, at which somebody first used the prefix in this cluster. A
 * cluster that has lost its data counts its revisions anew, from a base that is greater, unless it took more than a
 * revision in each nanosecond, or the clock goes back.
 */
export class TokenBase {
  readonly #cluster: Cluster;
  readonly #key: string;
  #known: string | undefined;
  /** The highest token that this store has seen. A new base is greater, whatever the clock shows. */
  #highest = 0n;

  constructor(cluster: Cluster, key: string) {
    this.#cluster = cluster;
    this.#key = key;
  }

  /** Whether `get` need not ask. */
  get isKnown(): boolean {
    return this.#known !== undefined;
  }

  /** As it was when it was last read. Only a transaction that compares it proves that it still is. */
  async get(operation: Operation): Promise<string> {
    return this.#known ?? (await this.#read(operation));
  }

  /** What a transaction has found at the key. False if it is not what `get` returned: then it is read again. */
  isStill(base: string, found: KeyValue | undefined): boolean {
    const same = found !== undefined && fromBase64(found.value) === base;
    if (!same && this.#known === base) this.#known = undefined;
    return same;
  }

  seen(token: bigint): void {
    if (token > this.#highest) this.#highest = token;
  }

  /** Writes it, unless somebody has. */
  async #read(operation: Operation): Promise<string> {
    const clock = BigInt(Date.now()) * NANOSECONDS;
    const first = String(clock > this.#highest ? clock : this.#highest + 1n);
    const { message } = await this.#cluster.call(operation, 'kv/txn', {
      compare: [isAbsent(this.#key)],
      success: [put(this.#key, base64(first)), range(this.#key)],
      failure: [range(this.#key)],
    });
    const { responses = [] } = message;
    const base = fromBase64(kvOf(responses[responses.length - 1])?.value);
    if (!/^\d{1,20}$/.test(base)) {
      throw new TypeError(`the value at ${JSON.stringify(fromBase64(this.#key))} is no base of tokens`);
    }
    this.#known = base;
    return base;
  }
}
