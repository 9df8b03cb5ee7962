import { DeferredCall } from '../../common/deferred-call.js';
import type { LockKey } from '../../common/types.js';
import type {
  FileFault,
  ProcessDeadlock,
  ProcessHold,
  ProcessLockEngine,
  ProcessOutcome,
  ProcessUse,
  ProcessWaiter,
} from '../contract/process-locks.js';
import type { Addon } from './addon.js';
import {
  NOT_OPENED,
  PROCESS_ABANDONED,
  PROCESS_ANSWER,
  PROCESS_BYTES,
  PROCESS_DEADLOCK,
  PROCESS_FAILED,
  PROCESS_FAULT,
  PROCESS_GRANTED,
  PROCESS_ID,
  PROCESS_INTERRUPTED,
  PROCESS_NUMBER,
  PROCESS_PENDING,
  PROCESS_READY,
  PROCESS_TOKEN,
} from './protocol.js';
import type { NativeThread } from './thread.js';

const GRANTED: ProcessOutcome = { status: 'granted' };
const PENDING: ProcessOutcome = { status: 'pending' };
const TIMED_OUT: ProcessOutcome = { status: 'timeout' };
const INTERRUPTED: ProcessOutcome = { status: 'interrupted' };

/** Numbers in an entry of `processInspect`. */
const USE_ENTRY = 8;

/**
 * This thread's side of the addon's locks of files. The addon keeps the event loop alive while acquisitions are pending, and
 * wakes it for each grant.
 *
 * After a call of the addon, every other call can fail by a stack overflow. Then another call of the addon, which needs no more
 * stack than the first one, gives back the grant or leaves the queue (keeps T1).
 */
export class NativeProcessLocks implements ProcessLockEngine {
  readonly #addon: Addon;
  readonly #thread: NativeThread;
  /** What the addon says of the last call. */
  readonly #integers: Int32Array;
  readonly #tokens: BigUint64Array;
  /** What is pending, by id. */
  readonly #waiters: (ProcessWaiter | undefined)[] = [];
  /** Tells this thread's waiters before the thread returns to its event loop. */
  readonly #delivery = new DeferredCall(() => this.deliver());

  /** To be made when the addon has started. */
  constructor(addon: Addon, thread: NativeThread) {
    const memory = new SharedArrayBuffer(PROCESS_BYTES);
    this.#addon = addon;
    this.#thread = thread;
    this.#integers = new Int32Array(memory);
    this.#tokens = new BigUint64Array(memory);
    addon.processExchange(new Float64Array(memory));
  }

  open(path: string, title: string, files: number): number | FileFault {
    const file = this.#addon.processOpen(path, title, files);
    return file === NOT_OPENED ? this.#fault() : file;
  }

  close(file: number): void {
    this.#addon.processClose(file);
  }

  attempt(
    file: number,
    keys: LockKey | readonly LockKey[],
    shared: boolean,
    hold: ProcessHold,
  ): ProcessOutcome {
    this.#addon.processAttempt(file, keys, shared);
    try {
      this.#tellReady();
      return this.#outcome(hold);
    } catch (error) {
      if (this.#integers[PROCESS_ANSWER] === PROCESS_GRANTED)
        this.#addon.processRelease(this.#integers[PROCESS_ID]!);
      throw error;
    }
  }

  acquireSync(
    file: number,
    keys: LockKey | readonly LockKey[],
    shared: boolean,
    timeout: number,
    hold: ProcessHold,
  ): ProcessOutcome {
    // Mostly the keys are free, and then nothing need be prepared for a thread that blocks.
    const tried = this.attempt(file, keys, shared, hold);
    if (tried !== TIMED_OUT || timeout === 0) return tried;
    try {
      const cycle = this.#thread.whileBlocked(() =>
        this.#addon.processAcquireSync(file, keys, shared, timeout),
      );
      this.#tellReady();
      return this.#outcome(hold, cycle);
    } catch (error) {
      if (this.#integers[PROCESS_ANSWER] === PROCESS_GRANTED)
        this.#addon.processRelease(this.#integers[PROCESS_ID]!);
      throw error;
    }
  }

  acquireAsync(
    file: number,
    keys: LockKey | readonly LockKey[],
    shared: boolean,
    mayGiveUp: boolean,
    waiter: ProcessWaiter,
  ): ProcessOutcome {
    const { hold } = waiter;
    const integers = this.#integers;
    this.#addon.processAcquireAsync(file, keys, shared, mayGiveUp);
    const id = integers[PROCESS_ID]!;
    const pends = integers[PROCESS_ANSWER] === PROCESS_PENDING;
    if (pends) {
      // Before anything is called: from here on a script that is ended loses no grant.
      hold.id = id;
      this.#waiters[id] = waiter;
    }
    try {
      // Another thread may have granted it by now. The event loop delivers that grant, as the addon has woken it. A microtask
      // would deliver it before the caller's own next microtask, which may block for the same key.
      if (!pends) return this.#outcome(hold);
      waiter.begin();
      return PENDING;
    } catch (error) {
      if (pends) {
        this.#waiters[id] = undefined;
        this.#addon.processCancel(id, false);
      } else if (integers[PROCESS_ANSWER] === PROCESS_GRANTED) {
        this.#addon.processRelease(id);
      }
      hold.id = -1;
      throw error;
    }
  }

  cancel(waiter: ProcessWaiter, last = false): boolean {
    const { hold } = waiter;
    const { id } = hold;
    if (this.#waiters[id] !== waiter) return false;
    const cancelled = this.#addon.processCancel(id, last);
    if (cancelled) {
      this.#waiters[id] = undefined;
      hold.id = -1;
    }
    this.#tellReady();
    return cancelled;
  }

  release(hold: ProcessHold): void {
    const { id } = hold;
    if (id < 0) return;
    this.#addon.processRelease(id);
    hold.id = -1;
    this.#tellReady();
  }

  deliver(): void {
    while (this.#addon.takeProcessNews()) {
      const waiter = this.#waiters[this.#integers[PROCESS_ID]!]!;
      this.#waiters[this.#integers[PROCESS_ID]!] = undefined;
      waiter.settle(this.#outcome(waiter.hold));
    }
  }

  inspect(file: number): readonly ProcessUse[] | FileFault {
    const flat = this.#addon.processInspect(file);
    if (this.#integers[PROCESS_FAULT] !== 0) return this.#fault();
    const uses: ProcessUse[] = [];
    for (let i = 0; i < flat.length; i += USE_ENTRY) {
      const [place, key, shared, waits, pid, threadId, since, title] = flat.slice(i, i + USE_ENTRY) as [
        string,
        LockKey | undefined,
        boolean,
        boolean,
        number,
        number,
        number,
        string | undefined,
      ];
      uses.push({ place, key, shared, waits, pid, threadId, since, title });
    }
    return uses;
  }

  #fault(): FileFault {
    return { fault: this.#integers[PROCESS_FAULT]!, number: this.#integers[PROCESS_NUMBER]! };
  }

  /** What the addon has just said. The hold is up to date before anything is called that could fail. */
  #outcome(hold: ProcessHold, cycle: readonly LockKey[] = []): ProcessOutcome {
    const integers = this.#integers;
    const answer = integers[PROCESS_ANSWER];
    hold.id = answer === PROCESS_GRANTED ? integers[PROCESS_ID]! : -1;
    hold.abandoned = integers[PROCESS_ABANDONED] !== 0;
    hold.token = this.#tokens[PROCESS_TOKEN]!;
    switch (answer) {
      case PROCESS_GRANTED:
        return GRANTED;
      case PROCESS_DEADLOCK:
        return { status: 'deadlock', ...cycleOf(cycle) };
      case PROCESS_INTERRUPTED:
        return INTERRUPTED;
      case PROCESS_FAILED:
        return { status: 'failed', ...this.#fault() };
      default:
        return TIMED_OUT;
    }
  }

  #tellReady(): void {
    if (this.#integers[PROCESS_READY] === 0) return;
    try {
      this.#delivery.schedule();
    } catch {
      // The stack overflowed. The event loop settles them, as the addon has woken it.
    }
  }
}

/** `flat`: threads and the keys that they wait for, one after the other. */
function cycleOf(flat: readonly LockKey[]): Pick<ProcessDeadlock, 'threads' | 'awaited'> {
  const threads: number[] = [];
  const awaited: LockKey[] = [];
  for (let i = 0; i < flat.length; i += 2) {
    threads.push(flat[i] as number);
    awaited.push(flat[i + 1]!);
  }
  return { threads, awaited };
}
