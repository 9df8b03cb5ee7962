import type { LeaseTable, LeaseWatch } from '../../engine/contract/lease-table.js';
import type { Clock } from '../contract/lease-store.js';
import { Schedule, type Due } from '../hold/schedule.js';

/** The keys of one memory store for which listeners of this thread wait. */
export class AwaitedKeys {
  readonly #table: LeaseTable;
  readonly #at: () => number;
  readonly #keys = new Map<string, AwaitedKey>();
  /** When the leases of these keys expire. It does not keep the process alive: the waiting acquisitions do. */
  readonly #schedule: Schedule<AwaitedKey>;

  /** `at`: the time as an argument of the table. It may throw, like the caller's clock. */
  constructor(table: LeaseTable, clock: Clock | undefined, at: () => number) {
    this.#table = table;
    this.#at = at;
    this.#schedule = new Schedule(clock, false);
  }

  /** See `WakingLeaseStore.onRelease`. */
  listen(key: string, listener: () => void): () => void {
    const awaited = this.#keys.get(key) ?? this.#add(key);
    // A separate function, since the same listener may be added twice.
    const added = (): void => listener();
    awaited.listeners.add(added);
    // The key may have been released between the caller's attempt and the start of the watch.
    if (!this.#isHeld(awaited)) this.#schedule.set(awaited, this.#schedule.now());
    return () => this.#leave(awaited, added);
  }

  /** Only a release makes the key free within `retryAfter` milliseconds. After that its listeners are notified. */
  refused(key: string, retryAfter: number): void {
    const awaited = this.#keys.get(key);
    if (awaited !== undefined) this.#schedule.set(awaited, this.#schedule.now() + retryAfter);
  }

  #add(key: string): AwaitedKey {
    const added = new AwaitedKey(key, () => {
      if (!this.#isHeld(added)) added.notify();
    });
    added.watch = this.#table.watch(key, () => added.notify());
    this.#keys.set(key, added);
    return added;
  }

  /** If it is held, schedules it for the time when its lease expires. */
  #isHeld(awaited: AwaitedKey): boolean {
    try {
      const remaining = this.#table.inspect(awaited.key, this.#at())?.remaining;
      if (remaining === undefined) return false;
      this.#schedule.set(awaited, this.#schedule.now() + remaining);
    } catch {
      // The caller's clock failed. Waiters also poll.
    }
    return true;
  }

  #leave(awaited: AwaitedKey, listener: () => void): void {
    if (!awaited.listeners.delete(listener) || awaited.listeners.size > 0) return;
    this.#keys.delete(awaited.key);
    this.#schedule.clear(awaited);
    awaited.watch!.end();
  }
}

class AwaitedKey implements Due {
  deadline = Infinity;
  place = -1;
  watch: LeaseWatch | undefined;
  /** In the order of their turns. */
  readonly listeners = new Set<() => void>();

  /** `run`: called when the lease may have expired. */
  constructor(
    readonly key: string,
    readonly run: () => void,
  ) {}

  /** Notifies all listeners, because the first may not want the key. The next time another listener is the first. */
  notify(): void {
    const called = [...this.listeners];
    const [first] = called;
    if (first === undefined) return;
    this.listeners.delete(first);
    this.listeners.add(first);
    for (const listener of called) if (this.listeners.has(listener)) listener();
  }
}
