/** Counts operations that have not settled yet, so that `close` can wait for them. */
export class PendingOperations {
  #count = 0;
  readonly #waiters: (() => void)[] = [];

  /** Counts the operation until it settles, and returns it. */
  add<T>(operation: Promise<T>): Promise<T> {
    this.#count++;
    const end = (): void => {
      if (--this.#count === 0) for (const wake of this.#waiters.splice(0)) wake();
    };
    operation.then(end, end);
    return operation;
  }

  /** Resolves when all operations have settled, including operations that are added in the meantime. */
  async settled(): Promise<void> {
    while (this.#count > 0) await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }
}
