import { DeferredCall } from '../../common/deferred-call.js';
import { LockError } from '../../common/errors.js';
import { modeCoded, type Mode } from '../contract/mode.js';
import type {
  WebLockEngine,
  WebLockHow,
  WebLocks,
  WebLockRequester,
  WebLockSnapshot,
} from '../contract/web-locks.js';
import type { Addon } from './addon.js';
import {
  BATCH,
  ENTRY_DETAIL,
  ENTRY_ID,
  ENTRY_INTS,
  MORE,
  WEB_LOCK_ANSWER,
  WEB_LOCK_BYTES,
  WEB_LOCK_CANCELLED,
  WEB_LOCK_HOW,
  WEB_LOCK_IF_AVAILABLE,
  WEB_LOCK_MANAGER,
  WEB_LOCK_MODE,
  WEB_LOCK_PENDING,
  WEB_LOCK_READY,
  WEB_LOCK_RELEASED,
  WEB_LOCK_STEAL,
  WEB_LOCK_TICKET,
  WEB_LOCK_UNAVAILABLE,
  WEB_LOCK_WAIT,
  NEWS_GRANTED,
  NEWS_STOLEN,
} from './protocol.js';

/** The number of fields in each entry of a query's result: name, mode, whether it is held, thread id. */
const QUERY_ENTRY = 4;

/**
 * This thread's view of the web locks in the addon, for all managers. Notifies requesters of grants and
 * thefts. The addon counts pending requests and keeps the event loop alive.
 */
export class NativeWebLocks implements WebLockEngine {
  readonly name = 'native';
  readonly id: readonly [number, number];
  readonly addon: Addon;
  /**
   * The buffer for the arguments and results of the addon's functions. The results of a call stay valid until
   * the next call.
   */
  readonly numbers: Float64Array;
  /** The same buffer as 32-bit integers. */
  readonly integers: Int32Array;
  /** The pending and held requests of this thread, by ticket. */
  readonly requesters: (WebLockRequester | undefined)[] = [];
  readonly #batch = new Int32Array(ENTRY_INTS * BATCH);
  /**
   * The notifications that are being delivered. If code cancels or releases a request, the remaining
   * notifications of the request are cleared.
   */
  notifications: readonly Notification[] = NONE;
  /** Calls {@link deliver} from a microtask, before the thread returns to its event loop. */
  readonly delivery = new DeferredCall(() => this.deliver());

  /** The addon must already have started in this thread. */
  constructor(addon: Addon) {
    this.addon = addon;
    this.id = addon.registryId();
    const memory = new SharedArrayBuffer(WEB_LOCK_BYTES);
    this.numbers = new Float64Array(memory);
    this.integers = new Int32Array(memory);
    addon.webLockExchange(this.numbers);
  }

  open(number = this.addon.webLockIssue()): WebLocks {
    if (this.addon.webLockIsManager(number)) return new NativeManager(this, number);
    throw new LockError('ERR_LOCK_ENGINE', 'the handle refers to nothing that this process has created');
  }

  /** Delivers all notifications that the addon has for this thread. */
  deliver(): void {
    let handedOver: number;
    do {
      handedOver = this.addon.takeWebLockNews(this.#batch);
      // All notifications are read before the first is delivered, because a delivery may run a diagnostics
      // subscriber with arbitrary code.
      this.notifications = this.#read(handedOver & ~MORE);
      for (const notifications of this.notifications) notify(notifications);
    } while ((handedOver & MORE) !== 0);
    this.notifications = NONE;
  }

  #read(count: number): Notification[] {
    const all: Notification[] = [];
    for (let i = 0; i < count; i++) {
      const ticket = this.#batch[ENTRY_INTS * i + ENTRY_ID]!;
      const what = this.#batch[ENTRY_INTS * i + ENTRY_DETAIL]!;
      const requester = this.requesters[ticket]!;
      if ((what & NEWS_STOLEN) !== 0) {
        // The addon may give the ticket of a stolen request to another request.
        requester.ticket = -1;
        this.requesters[ticket] = undefined;
      }
      all.push({ requester, what });
    }
    return all;
  }
}

interface Notification {
  readonly requester: WebLockRequester;
  /** The flags of the notifications that are not delivered yet. */
  what: number;
}

const NONE: readonly Notification[] = [];

/**
 * Calls the methods of a requester. Reads NEWS_STOLEN only after the call of `granted`, because that call may
 * run code that clears the flag.
 */
function notify(notifications: Notification): void {
  if ((notifications.what & NEWS_GRANTED) !== 0) notifications.requester.granted();
  if ((notifications.what & NEWS_STOLEN) !== 0) notifications.requester.stolen();
}

/** This thread's view of one manager. */
class NativeManager implements WebLocks {
  readonly number: number;
  readonly #locks: NativeWebLocks;
  readonly #addon: Addon;
  readonly #numbers: Float64Array;
  readonly #integers: Int32Array;
  readonly #requesters: (WebLockRequester | undefined)[];

  constructor(locks: NativeWebLocks, number: number) {
    this.number = number;
    this.#locks = locks;
    this.#addon = locks.addon;
    this.#numbers = locks.numbers;
    this.#integers = locks.integers;
    this.#requesters = locks.requesters;
  }

  request(
    name: string,
    mode: Mode,
    how: WebLockHow,
    requester: WebLockRequester,
  ): 'held' | 'pending' | 'unavailable' {
    const integers = this.#integers;
    this.#numbers[WEB_LOCK_MANAGER] = this.number;
    integers[WEB_LOCK_MODE] = mode.code;
    integers[WEB_LOCK_HOW] =
      how === 'wait' ? WEB_LOCK_WAIT : how === 'steal' ? WEB_LOCK_STEAL : WEB_LOCK_IF_AVAILABLE;
    this.#addon.webLockRequest(name);
    const answer = integers[WEB_LOCK_ANSWER];
    if (answer === WEB_LOCK_UNAVAILABLE) return 'unavailable';
    const ticket = integers[WEB_LOCK_TICKET]!;
    requester.ticket = ticket;
    this.#requesters[ticket] = requester;
    if (answer === WEB_LOCK_PENDING) return 'pending';
    // If this thread held the stolen lock, it must notify the requester that has lost the lock.
    if (how === 'steal' && integers[WEB_LOCK_READY] !== 0) this.#locks.delivery.schedule();
    return 'held';
  }

  cancel(requester: WebLockRequester): boolean {
    const integers = this.#integers;
    const { ticket } = requester;
    if (this.#requesters[ticket] === requester) {
      integers[WEB_LOCK_TICKET] = ticket;
      this.#addon.webLockCancel();
      if (integers[WEB_LOCK_ANSWER] === WEB_LOCK_CANCELLED) {
        this.#requesters[ticket] = undefined;
        requester.ticket = -1;
        // The requests behind the cancelled one may have been granted.
        if (integers[WEB_LOCK_READY] !== 0) this.#locks.delivery.schedule();
        return true;
      }
    }
    const { notifications } = this.#locks;
    for (let i = 0; i < notifications.length; i++) {
      if (notifications[i]!.requester === requester) notifications[i]!.what &= ~NEWS_GRANTED;
    }
    return false;
  }

  release(requester: WebLockRequester): boolean {
    const integers = this.#integers;
    const { ticket } = requester;
    let kept = false;
    if (this.#requesters[ticket] === requester) {
      integers[WEB_LOCK_TICKET] = ticket;
      this.#addon.webLockRelease();
      kept = integers[WEB_LOCK_ANSWER] === WEB_LOCK_RELEASED;
      this.#requesters[ticket] = undefined;
      requester.ticket = -1;
      if (integers[WEB_LOCK_READY] !== 0) this.#locks.delivery.schedule();
    }
    const { notifications } = this.#locks;
    for (let i = 0; i < notifications.length; i++)
      if (notifications[i]!.requester === requester) notifications[i]!.what = 0;
    return kept;
  }

  query(): WebLockSnapshot {
    this.#numbers[WEB_LOCK_MANAGER] = this.number;
    const flat = this.#addon.webLockQuery();
    const snapshot: WebLockSnapshot = { held: [], pending: [] };
    for (let i = 0; i < flat.length; i += QUERY_ENTRY) {
      const [name, mode, held, threadId] = flat.slice(i, i + QUERY_ENTRY) as [
        string,
        number,
        boolean,
        number,
      ];
      (held ? snapshot.held : snapshot.pending).push({ name, mode: modeCoded(mode), threadId });
    }
    return snapshot;
  }
}
