/** How a lock finds the stripe of a key. */
export interface KeyIndex {
  /** Throws for a value that cannot be a key; `name` is what the error calls it. */
  stripeOf(key: unknown, name: string): number;
}
