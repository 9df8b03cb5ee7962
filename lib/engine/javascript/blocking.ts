import { defer } from '../../common/host.js';
import { METRIC_CELLS } from '../contract/layout.js';
import { afterCode, clock, makeRoom } from './host.js';
import { patience } from './patience.js';
import { laneIndex, SLEEPERS, type Stripes, SYNC_LANE, WRITERS } from './stripes.js';
import { thread } from './thread.js';

/**
 * What a thread's async acquisitions do while the thread is blocked in `acquireSync`, of whatever lock. Nothing can
 * be delivered to them then, so whatever they had been given others would wait for in vain, and the thread might
 * wait for one of those: a deadlock that is nobody's fault.
 */
export interface GivesWay {
  /** Leaves the place at the head of every lane. */
  withdrawClaims(): void;
  /** Gives back all that was taken for acquisitions that are not settled yet. */
  giveBack(): void;
  /** Answers calls that this thread cannot follow, by calling others. False: none can come. */
  relayCalls(): boolean;
  readonly holdsAny: boolean;
  /** The thread runs again. */
  resume(): void;
  /** The thread ends, and can follow no more calls: calls others in its stead. */
  leave(): void;
}

/**
 * For so long, in milliseconds, a blocked thread lets its async acquisitions keep what was taken for them: most
 * waits are over by then, and one of many stripes need not start over.
 */
const GRACE = 1;

export function joinGivesWay(waits: GivesWay): void {
  thread.joined.add(waits);
  if (thread.listensForEnd) return;
  thread.listensForEnd = true;
  // Not emitted where a thread is terminated: those who are not called then look for themselves in the end.
  process.once('exit', () => {
    for (const waits of thread.joined) waits.leave();
  });
}

export function leaveGivesWay(waits: GivesWay): void {
  thread.joined.delete(waits);
}

/** What a sync wait needs of its table. */
export interface BlockedTable {
  readonly stripesHere: Stripes;
  readonly cells: BigInt64Array;
  /** Gives one stripe back that the wait had taken. Where it throws, nothing has changed. */
  giveBackTaken(stripe: number, shared: boolean): void;
}

/**
 * One sync wait of this thread, and a note of all that it has changed. A stack overflow can end it, or the end of a
 * `vm` timeout, in which no `finally` runs. Then {@link recover} undoes by the note what was done. Each note follows what
 * it tells of without a call in between (I8).
 */
export class BlockedThread {
  /** It holds so many of its stripes, from the front. */
  taken: number;
  /** So many of them are to be left to the caller, if the wait is undone. */
  kept = 0;
  /** In WAITING. */
  isCounted = false;
  /** Where it sleeps, or is the head. */
  stripe = -1;
  sleeps = false;
  sleepsAsWriter = false;
  claim = 0;
  readonly #table: BlockedTable;
  readonly #stripes: readonly number[];
  readonly #shared: boolean;
  #since = 0;
  #interval = GRACE;
  #gaveBack = false;

  constructor(table: BlockedTable, stripes: readonly number[], shared: boolean, taken: number) {
    this.#table = table;
    this.#stripes = stripes;
    this.#shared = shared;
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

  giveBack(): void {
    this.#gaveBack = true;
    for (const waits of thread.joined) {
      waits.withdrawClaims();
      waits.giveBack();
    }
  }

  leaveLane(): void {
    const { words } = this.#table.stripesHere;
    const index = laneIndex(this.stripe, SYNC_LANE);
    if (this.sleeps) Atomics.sub(words, index + SLEEPERS, 1);
    this.sleeps = false;
    if (this.sleepsAsWriter) Atomics.sub(words, index + WRITERS, 1);
    this.sleepsAsWriter = false;
  }

  /** Ends the claim without calling another. */
  dropClaim(): void {
    this.#table.stripesHere.dropClaim(this.stripe, SYNC_LANE, this.claim);
    this.claim = 0;
  }

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

  /** To be called when it is not going to get them. Gives back what was taken, now or where there is stack again. */
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
      this.#table.giveBackTaken(this.#stripes[this.taken - 1]!, this.#shared);
      this.taken--;
    }
  }

  /** What the wait did not come to do itself. */
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
 * To be called before anything else is done here: a sync wait that is still under way was cut off. Where this throws, it
 * can be called again.
 */
export function recover(): void {
  thread.blocked?.undo();
}

/** Sees to it that {@link recover} is called even if this thread does nothing more here. */
export function recoverLater(): void {
  if (thread.recoverySet) return;
  afterCode(recoverNow);
  thread.recoverySet = true;
}

function recoverNow(): void {
  thread.recoverySet = false;
  recover();
}
