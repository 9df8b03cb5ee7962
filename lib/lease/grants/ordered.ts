/** Runs operations on one key one after the other. Otherwise a store could execute a later one first. */
export class OrderedOperations {
  /** The last operation on each key, settled without a result. */
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
