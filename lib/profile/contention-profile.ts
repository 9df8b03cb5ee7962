import { writeFileSync } from 'node:fs';
import type { Collector, ContentionWait, LeftOut, Site } from './collector.js';
import { pprofOf } from './pprof.js';
import { summaryOf } from './summary.js';
import { traceOf, type TraceFile } from './trace-events.js';

/** The contention recorded during a profile. */
export class ContentionProfile {
  /** How long the profile was taken, in milliseconds. */
  readonly duration: number;
  /**
   * Individual waits, ordered by their start. A wait of w milliseconds is recorded with the probability w /
   * `sample`. If more than 10,000 are recorded, 10,000 of them are chosen at random. The sums in the other
   * views cover all recorded waits.
   */
  readonly waits: readonly ContentionWait[];
  /** The number of records that were dropped for lack of space. */
  readonly leftOut: Readonly<LeftOut>;
  readonly #keys: readonly Site[];
  readonly #waiting: readonly Site[];
  readonly #releasing: readonly Site[];
  readonly #began: number;

  /**
   * `began`: the start of the profile, in milliseconds since 1970.
   *
   * @internal
   */
  constructor(collector: Collector, began: number, duration: number) {
    // These are copies, because the collector keeps changing the originals.
    this.#keys = copiesOf(collector.keys);
    this.#waiting = copiesOf(collector.waiting);
    this.#releasing = copiesOf(collector.releasing);
    this.#began = began;
    this.duration = duration;
    this.waits = [...collector.waits].sort((a, b) => a.from - b.from);
    this.leftOut = { ...collector.leftOut };
  }

  /**
   * A gzipped file for `pprof` and tools that read its format, such as speedscope or Pyroscope. The sample
   * types `contentions` and `delay` belong to the call that waited. `caused_contentions` and `caused_delay`
   * belong to the call that released the contended key. Labels: `lock`, and `key` with numbers removed.
   */
  pprof(): Uint8Array {
    return pprofOf(this.#waiting, this.#releasing, this.#began, this.duration);
  }

  /**
   * A JSON file for https://ui.perfetto.dev and other viewers of the Trace Event Format. It has a track for
   * each thread with its waits and holds, and arrows from each release to the wait that it ended.
   */
  trace(): TraceFile {
    return traceOf(this.waits, process.pid);
  }

  /**
   * A readable summary with bars: the keys, the waiting calls and the releasing
   * calls that cost the most time.
   */
  summary(): string {
    const { duration, leftOut } = this;
    return summaryOf({
      duration,
      keys: this.#keys,
      waiting: this.#waiting,
      releasing: this.#releasing,
      leftOut,
    });
  }

  /**
   * Writes a file synchronously: the trace if the name ends in `.json`, the summary if it ends in `.txt`,
   * else the `pprof` file. Throws the error of the file system.
   */
  write(file: string): void {
    if (file.endsWith('.json')) writeFileSync(file, JSON.stringify(this.trace()));
    else writeFileSync(file, file.endsWith('.txt') ? this.summary() : this.pprof());
  }
}

function copiesOf(sites: ReadonlyMap<string, Site>): Site[] {
  return [...sites.values()].map((site) => ({ ...site }));
}
