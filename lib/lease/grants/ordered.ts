/** Operations on one key, one after the other: in a store of its own speed a later one could otherwise come first. */
export class OrderedOperations {
  /** The last of each key; never rejects. */
  readonly #last = new Map<string, Promise<void>>();

  run<T>(key: string, operation: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const result = before === undefined ? operation() : before.then(operation);
    const settled: Promise<void> = result
      .then(
        () => undefined,
        () => undefined,
      )
      .then(() => {
        if (this.#last.get(key) === settled) this.#last.delete(key);
      });
    this.#last.set(key, settled);
    return result;
  }
}
