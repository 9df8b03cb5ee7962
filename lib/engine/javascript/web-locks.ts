import { threadId } from 'node:worker_threads';
import { LONGEST_DELAY } from '../../common/timers.js';
import { LockError } from '../../common/errors.js';
import { keepAlive, unrefTimer, queueMicrotask, startTimer, type Timer } from '../../common/host.js';
import type { Mode } from '../contract/mode.js';
import {
  type WebLockEngine,
  type WebLockHow,
  type WebLocks,
  type WebLockRequester,
  type WebLockSnapshot,
} from '../contract/web-locks.js';
import { Numbered } from './numbered.js';
import { Queue, type Queued } from './queue.js';

/**
 * The managers of web locks of one thread, used if the addon does not load. Other threads cannot open these
 * managers.
 */
export class JavaScriptWebLockEngine implements WebLockEngine {
  readonly name = 'javascript';
  /**
   * The managers that are in use. A manager that is no longer in use has no requests, so a new object can
   * replace it.
   */
  readonly #managers = new Numbered<WebLocks>();
  readonly id = this.#managers.id;

  open(number = ++this.#managers.last): WebLocks {
    if (number > this.#managers.last) {
      throw new LockError('ERR_LOCK_ENGINE', 'the handle refers to nothing that this thread has created');
    }
    return this.#managers.get(number) ?? this.#managers.set(number, new JavaScriptWebLocks(number));
  }
}

/** A request for a name. */
class WebLockRequest implements Queued<WebLockRequest> {
  readonly number: number;
  readonly locks: LocksOfName;
  readonly mode: Mode;
  readonly requester: WebLockRequester;
  isStolen = false;
  /** True while the request is pending, and after the grant until its requester is notified. */
  isWaiting = false;
  previous: WebLockRequest | undefined = undefined;
  next: WebLockRequest | undefined = undefined;

  constructor(number: number, locks: LocksOfName, mode: Mode, requester: WebLockRequester) {
    this.number = number;
    this.locks = locks;
    this.mode = mode;
    this.requester = requester;
  }
}

/** The requests for one name. */
class LocksOfName {
  readonly name: string;
  readonly held = new Set<WebLockRequest>();
  readonly pending = new Queue<WebLockRequest>();

  constructor(name: string) {
    this.name = name;
  }

  /**
   * Whether the held requests admit another request in this mode. Modes with counted holders admit each
   * other.
   */
  admits(mode: Mode): boolean {
    for (const first of this.held) return mode.counted && first.mode.counted;
    return true;
  }
}

/**
 * One manager of one thread. The rules are the same as in `native/core/web_locks/web_locks.h`:
 *
 * R1  The held requests of a name are either one exclusive request or only shared requests.
 * R2  While no method of this class runs, the first pending request of a name is not compatible with the held
 *     requests.
 * R3  A request is either held or pending, until it is stolen or ends.
 * R4  A name is in `#names` only while it has held or pending requests.
 * R5  Requesters are notified of grants and thefts later, in order, with an empty stack.
 */
class JavaScriptWebLocks implements WebLocks {
  readonly number: number;
  readonly #names = new Map<string, LocksOfName>();
  /**
   * All requests by ticket: pending requests, held requests, and stolen requests whose requesters were not
   * notified yet.
   */
  readonly #entries = new Map<number, WebLockRequest>();
  #lastTicket = -1;
  /** The number of requests with `isWaiting`. While it is above 0, the timer keeps the event loop alive. */
  #waiting = 0;
  #timer: Timer;
  readonly #restart = (): void => {
    this.#timer = startTimer(this.#restart, LONGEST_DELAY);
    if (this.#waiting === 0) unrefTimer(this.#timer);
  };
  /**
   * The requests whose requesters must be notified, in order. A request that was granted and then stolen
   * occurs twice.
   */
  #notifications: WebLockRequest[] = [];
  readonly #notify = (): void => {
    const notifications = this.#notifications;
    this.#notifications = [];
    for (const entry of notifications) this.#notifyOne(entry);
  };

  constructor(number: number) {
    this.number = number;
  }

  request(
    name: string,
    mode: Mode,
    how: WebLockHow,
    requester: WebLockRequester,
  ): 'held' | 'pending' | 'unavailable' {
    const known = this.#names.get(name);
    const locks = known ?? new LocksOfName(name);
    const free = how === 'steal' || (locks.pending.first === undefined && locks.admits(mode));
    if (!free && how === 'ifAvailable') return 'unavailable';
    const entry = new WebLockRequest(++this.#lastTicket, locks, mode, requester);
    if (how === 'steal') this.#steal(locks);
    if (free) locks.held.add(entry);
    else this.#enqueue(entry);
    if (known === undefined) this.#names.set(name, locks);
    this.#entries.set(entry.number, entry);
    requester.ticket = entry.number;
    return free ? 'held' : 'pending';
  }

  cancel(requester: WebLockRequester): boolean {
    const entry = this.#entries.get(requester.ticket);
    if (entry === undefined) return false;
    const { locks } = entry;
    const wasPending = entry.isWaiting && !entry.isStolen && !locks.held.has(entry);
    this.#stopWaiting(entry);
    if (!wasPending) return false;
    locks.pending.remove(entry);
    this.#end(entry);
    // The requests behind the cancelled one may be compatible with the held requests (preserves R2).
    this.#grant(locks);
    return true;
  }

  release(requester: WebLockRequester): boolean {
    const entry = this.#entries.get(requester.ticket);
    if (entry === undefined) return false;
    this.#stopWaiting(entry);
    this.#end(entry);
    const { locks } = entry;
    if (!locks.held.delete(entry)) return false;
    this.#grant(locks);
    return true;
  }

  query(): WebLockSnapshot {
    const snapshot: WebLockSnapshot = { held: [], pending: [] };
    for (const { name, held, pending } of this.#names.values()) {
      for (const { mode } of held) snapshot.held.push({ name, mode, threadId });
      for (const { mode } of pending) snapshot.pending.push({ name, mode, threadId });
    }
    return snapshot;
  }

  #enqueue(entry: WebLockRequest): void {
    if (this.#waiting === 0) {
      if (this.#timer === undefined) this.#restart();
      keepAlive(this.#timer);
    }
    this.#waiting++;
    entry.isWaiting = true;
    entry.locks.pending.add(entry);
  }

  #stopWaiting(entry: WebLockRequest): void {
    if (!entry.isWaiting) return;
    entry.isWaiting = false;
    if (--this.#waiting === 0) unrefTimer(this.#timer);
  }

  #steal({ held }: LocksOfName): void {
    for (const entry of held) {
      entry.isStolen = true;
      this.#notifyLater(entry);
    }
    held.clear();
  }

  /**
   * Grants pending requests in order, until a request is not compatible with the held requests (preserves R1
   * and R2). Removes the name if no request is left (preserves R4).
   */
  #grant(locks: LocksOfName): void {
    const { name, held, pending } = locks;
    for (let entry; (entry = pending.first) !== undefined && locks.admits(entry.mode);) {
      pending.remove(entry);
      held.add(entry);
      this.#notifyLater(entry);
    }
    if (held.size === 0 && pending.first === undefined) this.#names.delete(name);
  }

  #end({ requester }: WebLockRequest): void {
    this.#entries.delete(requester.ticket);
    requester.ticket = -1;
  }

  #notifyLater(entry: WebLockRequest): void {
    if (this.#notifications.push(entry) === 1) queueMicrotask(this.#notify);
  }

  #notifyOne(entry: WebLockRequest): void {
    if (entry.isWaiting) {
      this.#stopWaiting(entry);
      entry.requester.granted();
    } else if (entry.isStolen && this.#entries.get(entry.requester.ticket) === entry) {
      this.#end(entry);
      entry.requester.stolen();
    }
  }
}
