/** How many acquisitions that are not settled ask for each stripe. */
export class WantedStripes {
  readonly #counts = new Map<number, number>();

  has(stripe: number): boolean {
    return this.#counts.has(stripe);
  }

  count(stripes: readonly number[], by: 1 | -1): void {
    for (const stripe of stripes) {
      const count = (this.#counts.get(stripe) ?? 0) + by;
      if (count > 0) this.#counts.set(stripe, count);
      else this.#counts.delete(stripe);
    }
  }
}
