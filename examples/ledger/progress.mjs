// @ts-check
/** A progress bar on a terminal; elsewhere one plain line for each quarter. Both go to stderr. */
import { Presets, SingleBar } from 'cli-progress';

const FORMAT = 'applying {bar} {percentage}% | {value}/{total} transfers | {audits} audits';

/**
 * @typedef {object} Progress
 * @property {(applied: number, audits: number) => void} update
 * @property {() => void} stop
 */

/**
 * @param {number} total
 * @returns {Progress}
 */
export function startProgress(total) {
  return process.stderr.isTTY ? bar(total) : lines(total);
}

/**
 * @param {number} total
 * @returns {Progress}
 */
function bar(total) {
  const options = { format: FORMAT, hideCursor: true, gracefulExit: true };
  const single = new SingleBar(options, Presets.shades_classic);
  single.start(total, 0, { audits: 0 });
  return {
    update: (applied, audits) => single.update(applied, { audits }),
    stop: () => single.stop(),
  };
}

/**
 * @param {number} total
 * @returns {Progress}
 */
function lines(total) {
  let quarters = 0;
  return {
    update(applied, audits) {
      const reached = Math.floor((applied * 4) / total);
      if (reached === quarters) return;
      quarters = reached;
      console.error(`applying ${quarters * 25}% | ${applied}/${total} transfers | ${audits} audits`);
    },
    stop() {},
  };
}
