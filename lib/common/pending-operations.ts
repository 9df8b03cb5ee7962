/** Operations under way that a close waits for. */
export class PendingOperations {
  readonly #operations = new Set<Promise<void>>();

  /** Counts the operation until it settles, and returns it. */
  add<T>(operation: Promise<T>): Promise<T> {
    const end = (): void => void this.#operations.delete(ended);
    const ended: Promise<void> = operation.then(end, end);
    this.#operations.add(ended);
    return operation;
  }

  /** Resolves when all operations have settled, including those that are added before. */
  async settled(): Promise<void> {
    while (this.#operations.size > 0) await Promise.all(this.#operations);
  }
}
