/** What was done under the lock does not add up: somebody else was in there too. */
export class Miscount extends Error {
  /**
   * @param {string} message
   * @param {import('./index.mjs').Figures} figures What was measured all the same.
   */
  constructor(message, figures) {
    super(message);
    this.figures = figures;
  }
}
