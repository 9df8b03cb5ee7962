import { defer } from '../../common/host.js';
import { METRIC_CELLS } from '../contract/layout.js';
import type { Mode } from '../contract/mode.js';
import { afterCode, clock, makeRoom } from './host.js';
import { laneIndex, SLEEPERS, SYNC_LANE, WRITERS } from './lanes.js';
import { patience } from './patience.js';
import type { Stripes } from './stripes.js';
import { type Blocked, type GivesWay, thread } from './thread.js';

/**
 * For so long, in milliseconds, a blocked thread lets its async acquisitions keep what was taken for them: most
 * waits are over by then, and an acquisition of many stripes need not start over.
 */
const GRACE = 1;

/** Has `waits` told when this thread blocks, and when it ends. */
export function joinGivesWay(waits: GivesWay): void {
  thread.joined.add(waits);
  if (thread.listensForEnd) return;
  thread.listensForEnd = true;
  // Not emitted where a thread is terminated: those who are not called then look for themselves after a while.
  process.once('exit', () => {
    for (const waits of thread.joined) waits.leave();
  });
}

/** No longer. */
export function leaveGivesWay(waits: GivesWay): void {
  thread.joined.delete(waits);
}

/** What a sync wait needs of its table. */
export interface BlockedTable {
  readonly stripesHere: Stripes;
  readonly cells: BigInt64Array;
  /** Gives one stripe back that the wait had taken. Where it throws, nothing has changed. */
  giveBackTaken(stripe: number, mode: Mode): void;
}

/**
 * One sync wait of this thread, and a note of all that it has changed. A stack overflow can end it, or the end of a
 * `vm` timeout, in which no `finally` runs. Then {@link recover} undoes what the note says. Each note follows what
 * it tells of without a call in between (I8).
 */
export class BlockedThread implements Blocked {
  /** How many of its stripes it holds, from the front. */
  taken: number;
  /** How many of them are left to the caller if the wait is undone. */
  kept = 0;
  /** It is counted in the metric `waiting`. */
  isCounted = false;
  /** The stripe in whose lane it sleeps, or is the head. */
  stripe = -1;
  sleeps = false;
  sleepsAsWriter = false;
  claim = 0;
  readonly #table: BlockedTable;
  readonly #stripes: readonly number[];
  readonly #mode: Mode;
  #since = 0;
  #interval = GRACE;
  #gaveBack = false;

  constructor(table: BlockedTable, stripes: readonly number[], mode: Mode, taken: number) {
    this.#table = table;
    this.#stripes = stripes;
    this.#mode = mode;
    this.taken = taken;
    thread.blocked = this;
  }

  /** To be called before each sleep. Returns how long it may last, `nap` at most. */
  beforeSleep(nap: number): number {
    recoverLater();
    const { joined } = thread;
    if (joined.size === 0) return nap;
    const now = clock();
    if (this.#since === 0) {
      this.#since = now;
      for (const waits of joined) waits.withdrawClaims();
    }
    let cut = false;
    if (!this.#gaveBack) {
      for (const waits of joined) cut ||= waits.holdsAny;
      if (!cut || now - this.#since >= GRACE) this.giveBack();
    }
    for (const waits of joined) cut = waits.relayCalls() || cut;
    const interval = this.#interval;
    if (!cut || interval > patience.relay) return nap;
    this.#interval = 2 * interval;
    return Math.min(nap, interval);
  }

  /** Has the async acquisitions of this thread give back what they hold, and make place for others. */
  giveBack(): void {
    this.#gaveBack = true;
    for (const waits of thread.joined) {
      waits.withdrawClaims();
      waits.giveBack();
    }
  }

  /** Takes it out of the counts of the sleepers. */
  leaveLane(): void {
    const { memory } = this.#table.stripesHere.lanes;
    const index = laneIndex(this.stripe, SYNC_LANE);
    if (this.sleeps) Atomics.sub(memory, index + SLEEPERS, 1);
    this.sleeps = false;
    if (this.sleepsAsWriter) Atomics.sub(memory, index + WRITERS, 1);
    this.sleepsAsWriter = false;
  }

  /** Ends the claim without calling another. */
  dropClaim(): void {
    this.#table.stripesHere.lanes.dropClaim(this.stripe, SYNC_LANE, this.claim);
    this.claim = 0;
  }

  /** Ends the claim, and calls others. */
  withdrawClaim(): void {
    this.#table.stripesHere.withdraw(this.stripe, SYNC_LANE, this.claim);
    this.claim = 0;
  }

  /** To be called when it has all its stripes. */
  end(): void {
    if (this.#since !== 0 || this.#gaveBack) {
      for (const waits of thread.joined) waits.resume();
    }
    if (this.isCounted) Atomics.sub(this.#table.cells, METRIC_CELLS.waiting, 1n);
    this.isCounted = false;
    thread.blocked = undefined;
  }

  /** To be called when it fails. Gives back what was taken, now or where there is stack again. */
  endFailed(): void {
    makeRoom();
    try {
      this.#giveUp();
      this.end();
    } catch {
      defer(recover, undefined);
    }
  }

  #giveUp(): void {
    while (this.taken > this.kept) {
      this.#table.giveBackTaken(this.#stripes[this.taken - 1]!, this.#mode);
      this.taken--;
    }
  }

  /** Does what the wait did not come to do itself. */
  undo(): void {
    if (this.claim !== 0) this.withdrawClaim();
    if (this.sleeps) {
      this.leaveLane();
      // Keeps I4: a call may have come to it.
      this.#table.stripesHere.callAgain(this.stripe);
    }
    this.#giveUp();
    this.end();
  }
}

/**
 * To be called before this thread does anything else here: a sync wait that is still under way was cut off. Where this
 * throws, it can be called again.
 */
export function recover(): void {
  thread.blocked?.undo();
}

/** Has {@link recover} called even if this thread does nothing more here. */
export function recoverLater(): void {
  if (thread.recoverySet) return;
  afterCode(recoverNow);
  thread.recoverySet = true;
}

function recoverNow(): void {
  thread.recoverySet = false;
  recover();
}
