import { clearTimeout, queueMicrotask, setTimeout } from '../../common/host.js';
import type { Cluster } from './cluster.js';
import type { Message } from './messages.js';

/** Milliseconds for which a watch is kept after the last listener has gone, since hand-overs often follow each other. */
const LINGER = 1000;
/** Each watch is a connection. Beyond so many keys, one watch for all keys of the prefix is cheaper. */
const MOST_WATCHES = 32;
/** Milliseconds before a watch that has ended is opened again: at first, and at most. */
const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 5000;

/** Keys to watch, as etcd takes them. */
interface Range {
  readonly key: string;
  readonly range_end?: string;
}

/**
 * Wakes those who wait in this store for a key when the key is removed: by a release, by expiry, or with an etcd lease that
 * was revoked. It wakes one at a time, in turn, so that thousands do not ask for what one of them can have. The waiters'
 * own polling finds what it misses.
 */
export class Releases {
  readonly #cluster: Cluster;
  readonly #all: Range;
  readonly #keys = new Map<string, AwaitedKey>();
  /** Of all keys; undefined while each has its own. */
  #wide: Watch | undefined;
  #closed = false;

  /** `all`: the keys of all leases. */
  constructor(cluster: Cluster, all: Range) {
    this.#cluster = cluster;
    this.#all = all;
  }

  /** Returns a function that ends it. */
  listen(name: string, listener: () => void): () => void {
    if (this.#closed) return () => undefined;
    let key = this.#keys.get(name);
    if (!key) {
      key = new AwaitedKey();
      this.#keys.set(name, key);
      this.#watch(name, key);
    }
    clearTimeout(key.idle);
    key.listeners.add(listener);
    const { isNews } = key;
    // It came between the attempt of this listener and now.
    if (isNews) queueMicrotask(() => key.wake());
    return () => this.#leave(name, key, listener);
  }

  /**
   * Whether an attempt at the keys should look first, which costs the servers less than one that is refused: others have
   * them as far as is known here. To be called just before each attempt.
   */
  expectsRefusal(names: readonly string[]): boolean {
    const awaited = names.map((name) => this.#keys.get(name)).filter((key) => key !== undefined);
    const expected = awaited.some((key) => key.listeners.size > 0 && !key.isNews);
    for (const key of awaited) key.isNews = false;
    return expected;
  }

  close(): void {
    this.#closed = true;
    for (const key of this.#keys.values()) key.close();
    this.#keys.clear();
    this.#wide?.close();
    this.#wide = undefined;
  }

  #watch(name: string, key: AwaitedKey): void {
    const removed = (names: readonly string[]): void => {
      for (const one of names) this.#keys.get(one)?.wake();
    };
    if (this.#keys.size <= MOST_WATCHES) {
      // It may have been released before there was a watch.
      key.own = new Watch(this.#cluster, { key: name }, () => key.look(), removed);
      return;
    }
    this.#wide ??= new Watch(
      this.#cluster,
      this.#all,
      () => {
        for (const one of this.#keys.values()) if (one.own === undefined) one.look();
      },
      removed,
    );
    if (this.#wide.isOpen) queueMicrotask(() => key.look());
  }

  #leave(name: string, key: AwaitedKey, listener: () => void): void {
    key.listeners.delete(listener);
    if (key.listeners.size > 0 || this.#keys.get(name) !== key) return;
    clearTimeout(key.idle);
    key.idle = setTimeout(() => this.#forget(name, key), LINGER).unref();
  }

  #forget(name: string, key: AwaitedKey): void {
    key.close();
    this.#keys.delete(name);
    for (const { own } of this.#keys.values()) if (own === undefined) return;
    this.#wide?.close();
    this.#wide = undefined;
  }
}

/** A key that is waited for, or was a moment ago. */
class AwaitedKey {
  /** In the order of their turns. */
  readonly listeners = new Set<() => void>();
  /** Undefined if the key is watched with all others. */
  own: Watch | undefined;
  idle: NodeJS.Timeout | undefined;
  /** Whether it was removed since the last attempt. */
  isNews = false;

  wake(): void {
    this.isNews = true;
    this.look();
  }

  /** The one that is woken goes to the end, as it may not ask, or may be refused. */
  look(): void {
    const [first] = this.listeners;
    if (!first) return;
    this.listeners.delete(first);
    this.listeners.add(first);
    first();
  }

  close(): void {
    clearTimeout(this.idle);
    this.listeners.clear();
    this.own?.close();
  }
}

/**
 * Hears of keys that are removed. It begins with what comes, never with a revision of the past, so nothing that it needs can
 * be compacted; when it ends it is opened again, at another server. It does not keep the process alive.
 */
class Watch {
  readonly #cluster: Cluster;
  readonly #range: Range;
  readonly #opened: () => void;
  readonly #removed: (names: readonly string[]) => void;
  #end: () => void = () => undefined;
  #timer: NodeJS.Timeout | undefined;
  #pause = FIRST_PAUSE;
  isOpen = false;

  constructor(
    cluster: Cluster,
    range: Range,
    opened: () => void,
    removed: (names: readonly string[]) => void,
  ) {
    this.#cluster = cluster;
    this.#range = range;
    this.#opened = opened;
    this.#removed = removed;
    this.#open();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.isOpen = false;
    this.#end();
  }

  #open(): void {
    const request = { create_request: { ...this.#range, filters: ['NOPUT'] } };
    this.#end = this.#cluster.watch(
      request,
      (message) => this.#heard(message),
      () => this.#ended(),
    );
  }

  #heard({ created, canceled, events = [] }: Message): void {
    if (canceled) throw new Error('the watch was cancelled');
    if (created) {
      this.isOpen = true;
      this.#pause = FIRST_PAUSE;
      this.#opened();
    }
    const names = events.map(({ kv }) => kv?.key ?? '');
    if (names.length > 0) this.#removed(names);
  }

  #ended(): void {
    this.isOpen = false;
    this.#timer = setTimeout(() => this.#open(), this.#pause).unref();
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE);
  }
}
