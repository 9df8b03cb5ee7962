/** The counts under the lock are wrong: somebody else was in the section, too. */
export class Miscount extends Error {
  /**
   * @param {string} message
   * @param {import('./index.mjs').Figures} figures Measured in spite of that.
   */
  constructor(message, figures) {
    super(message);
    this.figures = figures;
  }
}
