/**
 * What a callback that returned an object comes to. The promise of its request is resolved with this, and so calls
 * {@link then} in a microtask, with what settles it. That costs less than a promise between the two.
 */
export class CallbackResult {
  #resolve: ((value: unknown) => void) | undefined = undefined;
  #reject: ((reason: unknown) => void) | undefined = undefined;
  #isSettled = false;
  #hasFailed = false;
  #outcome: unknown = undefined;

  /** Only the first call counts. */
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
