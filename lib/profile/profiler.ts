import { checkPart, type Names } from '../common/checks.js';
import { invalidArgType, LockError, outOfRange } from '../common/errors.js';
import { letGo, performance, sharedNow, startTimer, stopTimer, type Timer } from '../common/host.js';
import type { ContentionEngine } from '../engine/contract/contention.js';
import { contentionEngine } from '../engine/select.js';
import { Collector } from './collector.js';
import { ContentionProfile } from './contention-profile.js';

/** For `profileContention(options)` of `stripelock/profile`. */
export interface ContentionProfileOptions {
  /** Only locks with these names. Default: all. */
  locks?: readonly string[];
  /** Shorter waits are left out, in milliseconds. Default 0.1. */
  threshold?: number;
  /**
   * A wait this long or longer is always recorded, a shorter one with a probability in proportion, in milliseconds. So one wait
   * is recorded for each such time that was waited, and the sums stay right. It rises meanwhile where that would be more than
   * about 300 a second in all threads together. Default 1.
   */
  sample?: number;
}

/** A profile that is being taken. */
export interface ContentionProfiler {
  /** What was recorded so far. After {@link stop}, the same as that. */
  snapshot(): ContentionProfile;
  /** Ends it. The same each time. */
  stop(): Promise<ContentionProfile>;
}

const NAMES: Names<ContentionProfileOptions> = { locks: true, threshold: true, sample: true };
const THRESHOLD = 0.1;
const SAMPLE = 1;
/** How often what the threads have recorded is fetched, in milliseconds. */
const FETCH = 200;

/**
 * Records from now on where threads wait for `StripedLock`s and `KeyedLock`s: each wait with its lock, key, mode, thread, how long
 * it took and the call that waited, and the call that released what it waited for. In all threads of the process that use
 * this package, with no code of theirs. One profile is taken at a time: rejects with a LockError (ERR_LOCK_PROFILE) while
 * another one is, and with one (ERR_LOCK_ENGINE) without the addon; with a TypeError or RangeError for bad options. It ends
 * with {@link ContentionProfiler.stop}, or with the thread that called this.
 *
 * While none is taken it costs nothing. Meanwhile it costs a few microseconds for an acquisition that waits on the event
 * loop, and some tens for each record; an acquisition that need not wait costs as much as before.
 *
 * After the mutex and block profiles of Go, which tell of the one that released and of the one that waited.
 */
export function profileContention(options: ContentionProfileOptions = {}): Promise<ContentionProfiler> {
  try {
    return Promise.resolve(startProfiler(options));
  } catch (error) {
    return Promise.reject(error);
  }
}

/** The same without a promise. */
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

/** Reads each name once: a list may have getters, which throw or return something else the next time. */
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
  /** Once it has ended: what comes then belongs to the next one. */
  #last: ContentionProfile | undefined = undefined;

  constructor(engine: ContentionEngine) {
    this.#engine = engine;
    this.#collector = new Collector(sharedNow());
    this.#schedule();
  }

  snapshot(): ContentionProfile {
    if (this.#last !== undefined) return this.#last;
    this.#fetch();
    this.#collector.finish();
    return new ContentionProfile(this.#collector, this.#date, performance.now() - this.#began);
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
    letGo(this.#timer);
  }
}
