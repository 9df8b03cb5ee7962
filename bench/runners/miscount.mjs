/** What was done under the lock does not add up: somebody else was in there too. */
export class Miscount extends Error {
  /** @param {Record<string, number>} figures What was measured all the same. */
  constructor(message, figures) {
    super(message);
    this.figures = figures;
  }
}
