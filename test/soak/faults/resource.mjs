/**
 * What the leases guard: a counter for each key, which refuses a token lower than one that it has seen. A read shows
 * its token, too. Otherwise a late write could come between another holder's read and write.
 */
export class FencedResource {
  /** @type {Map<string, { newest: bigint, value: number }>} */
  #counters = new Map();
  /**
   * Every accepted write, in order.
   *
   * @type {{ key: string, token: bigint, value: number }[]}
   */
  writes = [];

  /**
   * @param {string} key
   * @param {bigint} token
   */
  read(key, token) {
    const counter = this.#admit(key, token);
    return counter && counter.value;
  }

  /**
   * @param {string} key
   * @param {bigint} token
   * @param {number} value
   */
  write(key, token, value) {
    const counter = this.#admit(key, token);
    if (!counter) return false;
    counter.value = value;
    this.writes.push({ key, token, value });
    return true;
  }

  /** @param {string} key */
  value(key) {
    return this.#counters.get(key)?.value ?? 0;
  }

  /**
   * @param {string} key
   * @param {bigint} token
   */
  #admit(key, token) {
    const counter = this.#counters.get(key) ?? { newest: 0n, value: 0 };
    this.#counters.set(key, counter);
    if (token < counter.newest) return undefined;
    counter.newest = token;
    return counter;
  }
}
