import { threadId } from 'node:worker_threads';
import { defer, performance, sharedNow } from '../../common/host.js';
import { callersOf, captureStack, type CapturedStack } from '../../common/stacks.js';
import {
  DRAW_NONE,
  DRAW_RECORDED,
  type BegunLeaseWait,
  type BegunWait,
  type ContentionEngine,
  type ContentionRecord,
  type ContentionRecorder,
  type EndedLeaseWait,
  type EndedWait,
  type LeaseCall,
  type LeaseRecorder,
  type ReleaseRecord,
  type WaitRecord,
} from '../contract/contention.js';
import { OBSERVE_PROFILE, OBSERVED_INT } from '../contract/layout.js';
import type { Addon } from './addon.js';

/** The maximum depth of recorded stacks, including up to eight frames of this package. */
const FRAMES = 24;
/**
 * The minimum interval, in milliseconds, between two captured stacks of one thread's calls that wait on the event
 * loop for one lock, or of its calls for leases. With this limit, capturing takes at most a few percent of a
 * thread's time, even if thousands of calls wait for a lock at the same time. A limit for all locks together would
 * hide the waits for a rarely used lock. The stacks of releases and sync calls are always captured.
 */
const PAUSE = 0.1;
/**
 * A microtask, or the end of the thread, passes the pending records to the addon. Adding a record passes them
 * earlier, if there are now `MOST` records, or if the first record is older than `OLDEST` milliseconds. So does
 * the profiler of this thread, before it fetches the records or stops.
 */
const MOST = 64;
const OLDEST = 100;

/** The stripe in the records of leases, which have no stripes: their ids contain the key. */
const NO_STRIPE = 0;

/** A record whose stack is not formatted yet. */
interface Pending {
  readonly record: Omit<WaitRecord, 'frames'> | Omit<ReleaseRecord, 'frames'>;
  readonly place: CapturedStack | undefined;
  /**
   * The result of the draw, which identifies the profile of the record. Another profile may start before the
   * record is passed to the addon.
   */
  readonly draw: number;
}

/** This thread's {@link Records} that have pending records. */
const unwritten = new Set<Records>();
let writesAtExit = false;
let isExiting = false;

function writeAll(): void {
  for (const records of unwritten) records.write();
}

/**
 * `process.exit()` and an uncaught error end a thread before its microtasks run. If a thread is terminated, the
 * event is not emitted.
 */
function onExit(): void {
  isExiting = true;
  writeAll();
}

/**
 * The records of one thread: for one lock, or for all leases. A record is created while the thread holds a
 * contended key. So the stack, which is expensive to format, is formatted later in a microtask.
 */
class Records {
  readonly #addon: Addon;
  #nextCapture = 0;
  #pending: Pending[] = [];
  /** When the first pending record was added, on the clock that all threads share. */
  #since = 0;

  constructor(addon: Addon) {
    this.#addon = addon;
  }

  /** See {@link ContentionRecorder.capture}. */
  capture(now: number): CapturedStack | undefined {
    if (now < this.#nextCapture) return undefined;
    this.#nextCapture = now + PAUSE;
    return captureStack(FRAMES);
  }

  add(pending: Pending, now: number): void {
    this.#pending.push(pending);
    if (this.#pending.length === 1) {
      this.#since = now;
      unwritten.add(this);
      defer(() => this.write(), undefined);
      if (!writesAtExit) process.once('exit', onExit);
      writesAtExit = true;
    }
    if (isExiting || this.#pending.length >= MOST || now - this.#since > OLDEST) this.write();
  }

  /** Formats the pending records and passes them to the addon. Never throws. */
  write(): void {
    const all = this.#pending;
    this.#pending = [];
    unwritten.delete(this);
    try {
      for (const { record, place, draw } of all) {
        const frames = place === undefined ? [] : callersOf(place);
        this.#addon.addRecord(JSON.stringify({ ...record, frames }), draw);
      }
    } catch {
      // Formatting a stack failed. The remaining records are lost.
    }
  }
}

/**
 * Records one thread's waits for one lock while a profile of contention is running
 * (`native/core/table/contention_profile.h`). A thread that has waited records its wait. A thread that
 * releases a contended stripe records the release. The release also makes the draw, which decides at random
 * whether the wait and the release are recorded.
 */
export class NativeRecorder implements ContentionRecorder {
  readonly #addon: Addon;
  readonly #words: Int32Array;
  readonly #table: number;
  readonly #records: Records;

  /** `table` is the addon's number of the table. */
  constructor(addon: Addon, table: number, words: Int32Array) {
    this.#addon = addon;
    this.#table = table;
    this.#words = words;
    this.#records = new Records(addon);
  }

  get isOn(): boolean {
    return (this.#words[OBSERVED_INT]! & OBSERVE_PROFILE) !== 0;
  }

  capture(now: number): CapturedStack | undefined {
    return this.#records.capture(now);
  }

  ended(begun: BegunWait, wait: () => EndedWait): void {
    try {
      const waited = performance.now() - begun.since;
      let draw = begun.kind === 'sync' ? this.#addon.drawn() : begun.draw;
      if (draw === DRAW_NONE) draw = this.#addon.draw(waited);
      if (draw < DRAW_RECORDED) return;
      const to = sharedNow();
      const { kind } = begun;
      const place = kind === 'sync' ? captureStack(FRAMES) : begun.place;
      const every = this.#addon.sampling();
      const record = {
        event: 'wait',
        ...wait(),
        id: this.#addon.lockId(this.#table),
        kind,
        thread: threadId,
        from: to - waited,
        to,
        every,
      } as const;
      this.#records.add({ record, place, draw }, to);
    } catch {
      // The program may have replaced `Error.prepareStackTrace` by a function that throws. The acquisition is
      // unaffected. Only the record is lost.
    }
  }

  /**
   * Records a release that happened just after the time `at`. `next`: the wait that this release ended, if
   * this thread had started the wait; otherwise undefined.
   */
  released(stripe: number, at: number, next: BegunWait | undefined): void {
    let draw = this.#addon.drawn();
    if (draw === DRAW_NONE && next !== undefined) {
      draw = next.draw = this.#addon.draw(performance.now() - next.since);
    }
    if (draw < DRAW_RECORDED) return;
    const id = this.#addon.lockId(this.#table);
    const record = { event: 'release', id, stripe, thread: threadId, at } as const;
    this.#records.add({ record, place: captureStack(FRAMES), draw }, at);
  }
}

/**
 * Records one thread's waits for leases, and its releases of leases, while a profile of contention is running.
 * The addon decides which of them are recorded.
 */
class NativeLeaseRecorder implements LeaseRecorder {
  readonly #addon: Addon;
  readonly #records: Records;

  constructor(addon: Addon) {
    this.#addon = addon;
    this.#records = new Records(addon);
  }

  call(since: number): LeaseCall {
    try {
      return { since, place: this.#records.capture(since) };
    } catch {
      // For example, the stack has overflowed. Only the frames of the record are lost.
      return { since, place: undefined };
    }
  }

  began({ since, place }: LeaseCall, id: string): BegunLeaseWait | undefined {
    try {
      const every = this.#addon.sampling();
      const wait = this.#addon.beginLeaseWait(id, performance.now() - since);
      return { since, place, id, wait, every };
    } catch {
      return undefined;
    }
  }

  ended(begun: BegunLeaseWait, wait: () => EndedLeaseWait): void {
    try {
      const draw = this.#addon.endLeaseWait(begun.wait);
      if (draw < DRAW_RECORDED) return;
      const { id, since, place, every } = begun;
      const to = sharedNow();
      const from = to - (performance.now() - since);
      const times = { from, to, every };
      const where = { id, stripe: NO_STRIPE, kind: 'async', thread: threadId } as const;
      this.#records.add({ record: { event: 'wait', ...wait(), ...where, ...times }, place, draw }, to);
    } catch {
      // Only the record is lost.
    }
  }

  releasing(id: string): (() => void) | undefined {
    try {
      const draw = this.#addon.drawLeaseRelease(id);
      if (draw < DRAW_RECORDED) return undefined;
      const at = sharedNow();
      const record = { event: 'release', id, stripe: NO_STRIPE, thread: threadId, at } as const;
      const place = captureStack(FRAMES);
      return () => this.#records.add({ record, place, draw }, at);
    } catch {
      // Only the record is lost.
      return undefined;
    }
  }
}

export class NativeContention implements ContentionEngine {
  readonly leases: LeaseRecorder;
  readonly #addon: Addon;

  constructor(addon: Addon) {
    this.#addon = addon;
    this.leases = new NativeLeaseRecorder(addon);
  }

  start(threshold: number, every: number, names: readonly string[]): boolean {
    return this.#addon.startProfile(threshold, every, names);
  }

  stop(): void {
    writeAll();
    this.#addon.stopProfile();
  }

  take(): { readonly records: readonly ContentionRecord[]; readonly leftOut: number } {
    writeAll();
    const taken = this.#addon.takeRecords();
    const leftOut = taken.pop() as number;
    return { records: taken.map((text) => JSON.parse(text as string) as ContentionRecord), leftOut };
  }
}
