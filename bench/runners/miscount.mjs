/** The counts under the lock are wrong: another thread or task was in the section, too. */
export class Miscount extends Error {
  /**
   * @param {string} message
   * @param {import('./index.mjs').Figures} figures Measured nevertheless.
   */
  constructor(message, figures) {
    super(message);
    this.figures = figures;
  }
}
