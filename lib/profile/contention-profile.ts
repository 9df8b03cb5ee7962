import { writeFileSync } from 'node:fs';
import type { Collector, ContentionWait, LeftOut, Site } from './collector.js';
import { pprofOf } from './pprof.js';
import { summaryOf } from './summary.js';
import { traceOf, type TraceFile } from './trace-events.js';

/** What was recorded while a profile was taken. */
export class ContentionProfile {
  /** For how long it was taken, in milliseconds. */
  readonly duration: number;
  /**
   * Single waits, by the time when they began. Each wait of w milliseconds is recorded with the probability w / `sample`, and of
   * more than 10,000 that many are chosen at random; all count in the sums of the other views.
   */
  readonly waits: readonly ContentionWait[];
  /** What was not kept for lack of room. */
  readonly leftOut: Readonly<LeftOut>;
  readonly #keys: readonly Site[];
  readonly #waiting: readonly Site[];
  readonly #releasing: readonly Site[];
  readonly #began: number;

  /**
   * `began`: milliseconds since 1970.
   *
   * @internal
   */
  constructor(collector: Collector, began: number, duration: number) {
    // Copies, as the collector goes on.
    this.#keys = copiesOf(collector.keys);
    this.#waiting = copiesOf(collector.waiting);
    this.#releasing = copiesOf(collector.releasing);
    this.#began = began;
    this.duration = duration;
    this.waits = [...collector.waits].sort((a, b) => a.from - b.from);
    this.leftOut = { ...collector.leftOut };
  }

  /**
   * For `pprof` and what reads its files, such as speedscope or Pyroscope; gzipped. Sample types: `contentions` and `delay` by
   * the call that waited, `caused_contentions` and `caused_delay` by the call that released what was waited for. Labels: `lock`,
   * and `key`, where numbers are left out of the key.
   */
  pprof(): Uint8Array {
    return pprofOf(this.#waiting, this.#releasing, this.#began, this.duration);
  }

  /**
   * For https://ui.perfetto.dev and other viewers of the Trace Event Format, as JSON has it: a track for each thread with what it
   * waited for and what it held meanwhile, and arrows from each release to the wait that it ended.
   */
  trace(): TraceFile {
    return traceOf(this.waits, process.pid);
  }

  /** For people: which keys, which calls that waited and which calls that released cost most time, with bars. */
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
   * Writes a file, before it returns: the trace if the name ends in `.json`, the summary if it ends in `.txt`, else the `pprof`
   * file. Throws the error of the file system.
   */
  write(file: string): void {
    if (file.endsWith('.json')) writeFileSync(file, JSON.stringify(this.trace()));
    else writeFileSync(file, file.endsWith('.txt') ? this.summary() : this.pprof());
  }
}

function copiesOf(sites: ReadonlyMap<string, Site>): Site[] {
  return [...sites.values()].map((site) => ({ ...site }));
}
