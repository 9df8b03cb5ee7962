import { Presets, SingleBar } from 'cli-progress';

const FORMAT = '{bar} {percentage}% | {eta_formatted} left | {what}';

/**
 * A bar on a terminal, to stderr. Elsewhere nothing, because each workload's table shows the progress.
 *
 * @param {number} total
 */
export function startProgress(total) {
  if (!process.stderr.isTTY)
    return {
      step: (/** @type {string} */ _what) => undefined,
      pause: (/** @type {() => void} */ print) => print(),
      stop: () => undefined,
    };
  const options = { format: FORMAT, hideCursor: true, clearOnComplete: true, etaBuffer: 50 };
  const bar = new SingleBar(options, Presets.shades_classic);
  bar.start(total, 0, { what: '' });
  return {
    step: (/** @type {string} */ what) => bar.increment(1, { what }),
    /** Hides the bar while something is printed. */
    pause: (/** @type {() => void} */ print) => {
      process.stderr.write('\r\x1b[K');
      print();
    },
    stop: () => bar.stop(),
  };
}
