import { checkPart, type Names } from '../common/checks.js';
import { invalidArgType, LockError, outOfRange } from '../common/errors.js';
import { unrefTimer, performance, sharedNow, startTimer, stopTimer, type Timer } from '../common/host.js';
import type { ContentionEngine } from '../engine/contract/contention.js';
import { contentionEngine } from '../engine/select.js';
import { Collector } from './collector.js';
import { ContentionProfile } from './contention-profile.js';

/** Options of `profileContention` (`stripelock/profile`). */
export interface ContentionProfileOptions {
  /** The names of the locks and `LeaseManager`s to profile. Default: all. */
  locks?: readonly string[];
  /** Waits that are shorter than this many milliseconds are ignored. Default 0.1. */
  threshold?: number;
  /**
   * A wait of at least this many milliseconds is always recorded. A shorter wait is recorded with a
   * proportional probability. So there is about one record for every `sample` milliseconds of waiting, and
   * the sums stay correct. The value rises while it would produce more than about 300 records per second in
   * all threads together. Default 1.
   */
  sample?: number;
}

/** A running profile. */
export interface ContentionProfiler {
  /**
   * The profile so far. After {@link stop}, the final profile. The same records may be missing as for `stop`. A
   * later call can return them.
   */
  snapshot(): ContentionProfile;
  /**
   * Stops the profile. Further calls return the same result. The profile includes the records of this thread.
   * Records made by another thread since its last microtasks (at most 64, or 100 ms) may be missing, also
   * releases.
   */
  stop(): Promise<ContentionProfile>;
}

const NAMES: Names<ContentionProfileOptions> = { locks: true, threshold: true, sample: true };
const THRESHOLD = 0.1;
const SAMPLE = 1;
/** Milliseconds between two fetches of the threads' records. */
const FETCH = 200;

/**
 * Starts to record where threads wait for `StripedLock`s, `KeyedLock`s, `ProcessLock`s and leases. The record
 * of a wait has the lock, key, mode, thread and duration. It also has the call that waited, and the call
 * that released the key if it was in this process. The profile covers all threads of the process that use
 * this package, without code in these threads.
 *
 * Only one profile can run at a time. The profile ends with {@link ContentionProfiler.stop}, or when the
 * calling thread ends. Rejects with a LockError (ERR_LOCK_PROFILE) while another profile runs, and with a
 * LockError (ERR_LOCK_ENGINE) without the addon. Rejects with a TypeError or RangeError for bad options.
 *
 * While no profile is running, there is no extra cost. During a profile, an acquisition that waits on the
 * event loop costs a few microseconds more. So does each `acquire` of a lease, because its stack is captured
 * before the store answers. Each record costs some tens of microseconds. Other acquisitions that need not
 * wait cost nothing extra.
 *
 * The design follows Go's mutex and block profiles, which attribute contention to the
 * releasing and the waiting call.
 */
export function profileContention(options: ContentionProfileOptions = {}): Promise<ContentionProfiler> {
  try {
    return Promise.resolve(startProfiler(options));
  } catch (error) {
    return Promise.reject(error);
  }
}

/** Like {@link profileContention}, but returns the profiler at once and throws errors. */
export function startProfiler(options: ContentionProfileOptions): Profiler {
  checkPart(options, NAMES, 'options');
  const { locks, threshold = THRESHOLD, sample = SAMPLE } = options;
  const names = locks === undefined ? [] : namesIn(locks);
  checkTime(threshold, 'options.threshold', false);
  checkTime(sample, 'options.sample', true);
  const engine = contentionEngine();
  if (!engine.start(threshold, sample, names))
    throw new LockError('ERR_LOCK_PROFILE', 'another profile of contention is being taken');
  return new Profiler(engine);
}

/** Reads each name once, because a list may have getters that throw or return another value the next time. */
function namesIn(locks: unknown): readonly string[] {
  const names: unknown[] | undefined = Array.isArray(locks) ? Array.from(locks as unknown[]) : undefined;
  if (names?.every((name) => typeof name === 'string')) return names;
  throw invalidArgType('options.locks', 'a list of names', locks);
}

function checkTime(time: unknown, name: string, positive: boolean): void {
  if (typeof time !== 'number') throw invalidArgType(name, 'a number', time);
  if (!(time >= 0 && time < Infinity) || (positive && time === 0)) {
    throw outOfRange(name, `a finite number of milliseconds ${positive ? 'above' : 'from'} 0`, time);
  }
}

export class Profiler implements ContentionProfiler {
  readonly #engine: ContentionEngine;
  readonly #collector: Collector;
  readonly #began = performance.now();
  readonly #date = Date.now();
  #timer: Timer;
  /** The final profile. Later records belong to the next profile. */
  #last: ContentionProfile | undefined = undefined;

  constructor(engine: ContentionEngine) {
    this.#engine = engine;
    this.#collector = new Collector(sharedNow());
    this.#schedule();
  }

  snapshot(): ContentionProfile {
    if (this.#last !== undefined) return this.#last;
    this.#fetch();
    return new ContentionProfile(this.#collector.finished(), this.#date, performance.now() - this.#began);
  }

  stop(): Promise<ContentionProfile> {
    if (this.#last === undefined) {
      stopTimer(this.#timer);
      this.#engine.stop();
      this.#last = this.snapshot();
    }
    return Promise.resolve(this.#last);
  }

  #fetch(): void {
    const { records, leftOut } = this.#engine.take();
    this.#collector.add(records, leftOut);
  }

  #schedule(): void {
    this.#timer = startTimer(() => {
      this.#fetch();
      this.#schedule();
    }, FETCH);
    unrefTimer(this.#timer);
  }
}
