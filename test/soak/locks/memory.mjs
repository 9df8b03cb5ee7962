import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Milliseconds until a process's memory is stable: with some twenty threads at a time, heaps and malloc's arenas grow
 * for two minutes, and then no more for ten.
 */
const WARM_UP = 150_000;
/** MiB by which the lowest memory late in the run may exceed the lowest memory early in the run. */
const FLAT = 64;

setFlagsFromString('--expose-gc');
/** @type {() => void} */
const collectGarbage = runInNewContext('gc');

/** The memory of the process during a run. */
export class Memory {
  #start;
  /** @type {{ at: number, mebibytes: number }[]} */
  #looks = [];

  /** @param {number} start On the clock of `performance.now()`. */
  constructor(start) {
    this.#start = start;
  }

  look() {
    collectGarbage();
    const mebibytes = process.memoryUsage().rss / 2 ** 20;
    this.#looks.push({ at: performance.now() - this.#start, mebibytes });
  }

  /** MiB at the last sample. */
  get latest() {
    return this.#looks.at(-1)?.mebibytes ?? 0;
  }

  /**
   * Violations, if the run was long enough to decide.
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
