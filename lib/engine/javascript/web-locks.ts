import { threadId } from 'node:worker_threads';
import { LONGEST_DELAY } from '../../common/alarm.js';
import { LockError } from '../../common/errors.js';
import {
  defer,
  HostFinalizationRegistry,
  keepAlive,
  letGo,
  startTimer,
  type Timer,
} from '../../common/host.js';
import type { Mode } from '../contract/mode.js';
import {
  DEFAULT_MANAGER,
  type WebLockEngine,
  type WebLockHow,
  type WebLocks,
  type WebLockRequester,
  type WebLockSnapshot,
} from '../contract/web-locks.js';
import { makeRoom } from './host.js';
import { WebLockEntry, WebLockQueue } from './web-lock-queue.js';

/** Managers of one thread, for where the addon does not load. Other threads cannot open them. */
export class JavaScriptWebLockEngine implements WebLockEngine {
  readonly name = 'javascript';
  /** Random, so that no other thread or process takes a handle of this thread for its own. */
  readonly id: readonly [number, number];
  /** By number, while somebody uses them. One that nobody uses is empty, and is made anew. */
  readonly #managers = new Map<number, WeakRef<WebLocks>>();
  readonly #gone = new HostFinalizationRegistry<number>((number) => {
    if (this.#managers.get(number)?.deref() === undefined) this.#managers.delete(number);
  });
  #last = DEFAULT_MANAGER;

  constructor() {
    const [low, high] = crypto.getRandomValues(new Int32Array(2));
    this.id = [low!, high!];
  }

  open(number = ++this.#last): WebLocks {
    if (number > this.#last) {
      throw new LockError('ERR_LOCK_ENGINE', 'the handle names nothing that was made in this thread');
    }
    const open = this.#managers.get(number)?.deref();
    if (open !== undefined) return open;
    const made = new JavaScriptWebLocks(number);
    this.#managers.set(number, new WeakRef(made));
    this.#gone.register(made, number);
    return made;
  }
}

/**
 * One manager of one thread. The same rules as in `native/core`:
 *
 * R1  Held is one exclusive request, or only shared ones.
 * R2  Outside of these methods, the first pending request of a name is not compatible with what is held.
 * R3  A request is held, or pending, or neither once it was stolen or has ended.
 * R4  A name has a queue only while somebody holds it or waits.
 * R5  What was granted or stolen is told later, with an empty stack, and in that order.
 *
 * A method that changes something makes sure of room on the stack first.
 */
class JavaScriptWebLocks implements WebLocks {
  readonly number: number;
  readonly #queues = new Map<string, WebLockQueue>();
  /** By ticket: all that are pending, held, or stolen and not told. */
  readonly #entries: (WebLockEntry | undefined)[] = [];
  readonly #freeTickets: number[] = [];
  /** Requests that are pending, or granted and not told: they keep the event loop alive. */
  #waiting = 0;
  #timer: Timer;
  readonly #restart = (): void => {
    this.#timer = startTimer(this.#restart, LONGEST_DELAY);
    if (this.#waiting === 0) letGo(this.#timer);
  };
  /** To be told, in this order. One that was granted and then stolen is here twice. */
  #news: WebLockEntry[] = [];
  #scheduled = false;
  readonly #tell = (): void => {
    this.#scheduled = false;
    const news = this.#news;
    this.#news = [];
    for (const entry of news) this.#tellOne(entry);
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
    makeRoom();
    const known = this.#queues.get(name);
    const queue = known ?? new WebLockQueue(name);
    const free = how === 'steal' || (queue.pending.first === undefined && queue.admits(mode));
    if (!free && how === 'ifAvailable') return 'unavailable';
    const entry = new WebLockEntry(queue, mode, requester);
    if (!free) this.#enqueue(queue, entry);
    else if (how === 'steal') this.#steal(queue);
    if (free) queue.hold(entry);
    if (known === undefined) this.#queues.set(name, queue);
    const ticket = this.#freeTickets.pop() ?? this.#entries.length;
    this.#entries[ticket] = entry;
    requester.ticket = ticket;
    return free ? 'held' : 'pending';
  }

  cancel(requester: WebLockRequester): boolean {
    makeRoom();
    const entry = this.#entryOf(requester);
    if (entry?.state !== 'pending') {
      if (entry !== undefined) this.#noNeedToGrant(entry);
      return false;
    }
    entry.queue.pending.remove(entry);
    this.#end(entry);
    this.#letGo();
    // Those behind it may be compatible with what is held (keeps R2).
    this.#grant(entry.queue);
    return true;
  }

  release(requester: WebLockRequester): boolean {
    makeRoom();
    const entry = this.#entryOf(requester);
    if (entry === undefined) return false;
    this.#noNeedToGrant(entry);
    const isHeld = entry.state === 'held';
    this.#end(entry);
    if (!isHeld) return false;
    entry.queue.held.remove(entry);
    this.#grant(entry.queue);
    return true;
  }

  query(): WebLockSnapshot {
    const snapshot: WebLockSnapshot = { held: [], pending: [] };
    for (const queue of this.#queues.values()) {
      const { name } = queue;
      for (let entry = queue.held.first; entry !== undefined; entry = entry.next) {
        snapshot.held.push({ name, mode: entry.mode, threadId });
      }
      for (let entry = queue.pending.first; entry !== undefined; entry = entry.next) {
        snapshot.pending.push({ name, mode: entry.mode, threadId });
      }
    }
    return snapshot;
  }

  #enqueue(queue: WebLockQueue, entry: WebLockEntry): void {
    // First, because a timer can fail.
    if (this.#waiting === 0) {
      if (this.#timer === undefined) this.#restart();
      keepAlive(this.#timer);
    }
    this.#waiting++;
    queue.pending.push(entry);
  }

  #letGo(): void {
    if (--this.#waiting === 0) letGo(this.#timer);
  }

  #steal(queue: WebLockQueue): void {
    for (let entry; (entry = queue.held.first) !== undefined;) {
      queue.held.remove(entry);
      entry.state = 'stolen';
      this.#news.push(entry);
    }
    this.#schedule();
  }

  /** Lets in whoever can be held now (keeps R1 and R2), or drops a queue that is empty (keeps R4). */
  #grant(queue: WebLockQueue): void {
    for (let entry; (entry = queue.pending.first) !== undefined && queue.admits(entry.mode);) {
      queue.pending.remove(entry);
      queue.hold(entry);
      entry.untold = true;
      this.#news.push(entry);
    }
    if (queue.isEmpty) this.#queues.delete(queue.name);
    this.#schedule();
  }

  #entryOf({ ticket }: WebLockRequester): WebLockEntry | undefined {
    return ticket < 0 ? undefined : this.#entries[ticket];
  }

  #end(entry: WebLockEntry): void {
    const { requester } = entry;
    entry.state = 'ended';
    this.#entries[requester.ticket] = undefined;
    this.#freeTickets.push(requester.ticket);
    requester.ticket = -1;
  }

  #noNeedToGrant(entry: WebLockEntry): void {
    if (!entry.untold) return;
    entry.untold = false;
    this.#letGo();
  }

  #schedule(): void {
    if (this.#scheduled || this.#news.length === 0) return;
    defer(this.#tell, undefined);
    this.#scheduled = true;
  }

  #tellOne(entry: WebLockEntry): void {
    if (entry.untold) {
      this.#noNeedToGrant(entry);
      entry.requester.granted();
    } else if (entry.state === 'stolen') {
      this.#end(entry);
      entry.requester.stolen();
    }
  }
}
