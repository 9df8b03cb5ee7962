/**
 * The result of a callback that returned an object. The request's promise is resolved with this thenable. So
 * {@link then} is called in a microtask, with the functions that settle the request's promise. That costs
 * less than an intermediate promise.
 */
export class CallbackResult {
  #resolve: ((value: unknown) => void) | undefined = undefined;
  #reject: ((reason: unknown) => void) | undefined = undefined;
  #isSettled = false;
  #hasFailed = false;
  #outcome: unknown = undefined;

  /** Sets the result. Only the first call counts. */
  settle(outcome: unknown, hasFailed: boolean): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#hasFailed = hasFailed;
    this.#outcome = outcome;
    (hasFailed ? this.#reject : this.#resolve)?.(outcome);
  }

  then(resolve: (value: unknown) => void, reject: (reason: unknown) => void): void {
    if (this.#isSettled) {
      (this.#hasFailed ? reject : resolve)(this.#outcome);
      return;
    }
    this.#resolve = resolve;
    this.#reject = reject;
  }
}
