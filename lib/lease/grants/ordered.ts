/** Runs operations on one key one after the other. Otherwise a store could execute a later one first. */
export class OrderedOperations {
  /** The last operation on each key, settled without a result. */
  readonly #last = new Map<string, Promise<void>>();

  /** An operation on several keys comes after the earlier ones on each of them, and before all later ones. */
  run<T>(keys: readonly string[], operation: () => Promise<T>): Promise<T> {
    const before = keys.map((key) => this.#last.get(key)).filter((last) => last !== undefined);
    const result = before.length === 0 ? operation() : Promise.all(before).then(operation);
    const settled: Promise<void> = result
      .then(
        () => undefined,
        () => undefined,
      )
      .then(() => {
        for (const key of keys) if (this.#last.get(key) === settled) this.#last.delete(key);
      });
    for (const key of keys) this.#last.set(key, settled);
    return result;
  }
}
