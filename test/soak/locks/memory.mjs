import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Milliseconds before which a process's memory has not found its level: with some twenty threads at a time, heaps and
 * malloc's arenas grow for two minutes, and then no more in ten.
 */
const WARM_UP = 150_000;
/** MiB that memory may be higher at its lowest late in the run than at its lowest early in it. */
const FLAT = 64;

setFlagsFromString('--expose-gc');
/** @type {() => void} */
const collectGarbage = runInNewContext('gc');

/** How much memory the process has, over a run. */
export class Memory {
  #start;
  /** @type {{ at: number, mebibytes: number }[]} */
  #looks = [];

  /** @param {number} start As `performance.now()` told it. */
  constructor(start) {
    this.#start = start;
  }

  look() {
    collectGarbage();
    const mebibytes = process.memoryUsage().rss / 2 ** 20;
    this.#looks.push({ at: performance.now() - this.#start, mebibytes });
  }

  /** MiB at the last look. */
  get latest() {
    return this.#looks.at(-1)?.mebibytes ?? 0;
  }

  /**
   * Violations, where the run was long enough to tell.
   *
   * @param {number} milliseconds The run's.
   */
  verdict(milliseconds) {
    if (milliseconds < 3 * WARM_UP) {
      console.log('memory: too short a run to tell');
      return [];
    }
    const middle = (WARM_UP + milliseconds) / 2;
    const grown = this.#lowest(middle, Infinity) - this.#lowest(WARM_UP, middle);
    console.log(`memory: ${grown.toFixed(0)} MiB more at its lowest late than early`);
    return grown < FLAT ? [] : [`memory has grown by ${grown.toFixed(0)} MiB`];
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  #lowest(from, to) {
    const between = this.#looks.filter(({ at }) => at >= from && at < to);
    return Math.min(...between.map(({ mebibytes }) => mebibytes));
  }
}
