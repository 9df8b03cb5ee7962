import { clearTimeout, performance, setTimeout } from '../../common/host.js';
import { answerWithin } from '../../lease/contract/answer-within.js';
import { Listeners } from '../listeners.js';
import { hasOneConnection, READING, type ChangeStream, type Collection } from './client.js';
import { codeOf } from './requests.js';
import { RELEASES } from './statements.js';

/** Milliseconds for which the stream is kept after the last listener has gone, as hand-overs often follow each other. */
const LINGER = 1000;
/** Milliseconds until a stream that has failed is opened again. */
const RETRY = 1000;
/** Milliseconds in which a stream should be closed. */
const CLOSES_IN = 1000;
/** Milliseconds: without a stream, a key is handed on within this store for so long before others get a chance. */
const LONGEST_RUN = 1000;
/**
 * What a server answers that has no change streams, or not for this user: only replica sets have them; unauthorized; no
 * such command, not supported, not implemented.
 */
const NO_STREAMS: ReadonlySet<unknown> = new Set([40573, 13, 59, 115, 238, 303, 304]);

/**
 * Wakes those who wait in this store for a key when it may be free: when a change stream reports its release, and when the
 * lease that they wait for expires. It wakes one at a time, in turn. The waiters' own polling finds what it misses, and all
 * of it where the server has no change streams.
 *
 * The stream is open only while somebody waits. While it waits for news it occupies a connection of the client.
 */
export class Releases {
  readonly #collection: Collection;
  readonly #keys = new Map<string, Listeners>();
  /** Without a stream: since when a key has been handed on within this store. */
  readonly #handedOnSince = new Map<string, number>();
  #stream: ChangeStream | undefined;
  /** Whether the stream reports what happens from now on. */
  #hears = false;
  #cannotHear: boolean;
  /** Until there is no stream any more, as nobody waits. */
  #idle: NodeJS.Timeout | undefined;
  /** Until there is another stream. */
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(collection: Collection) {
    this.#collection = collection;
    this.#cannotHear = hasOneConnection(collection);
  }

  /** Returns a function that ends it. */
  listen(id: string, listener: () => void): () => void {
    if (this.#closed) return () => undefined;
    let listeners = this.#keys.get(id);
    if (!listeners) {
      listeners = new Listeners();
      this.#keys.set(id, listeners);
      clearTimeout(this.#idle);
      if (this.#retry === undefined) this.#open();
    }
    listeners.all.add(listener);
    return () => this.#leave(id, listeners, listener);
  }

  /** The lease ends in so many milliseconds, unless it is renewed. */
  endsIn(id: string, milliseconds: number): void {
    this.#keys.get(id)?.wakeIn(milliseconds);
  }

  /**
   * The lease was released through this store. If there is a stream, it tells all stores, so that none is first because it
   * is the one that has released.
   */
  released(id: string): void {
    const listeners = this.#keys.get(id);
    if (this.#hears || !listeners) return;
    const now = performance.now();
    const since = this.#handedOnSince.get(id) ?? now;
    if (now - since < LONGEST_RUN) {
      this.#handedOnSince.set(id, since);
      listeners.wake();
    } else {
      this.#handedOnSince.delete(id);
    }
  }

  /** Resolves when the stream does not use the client any more, or the server has not answered that in time. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const listeners of this.#keys.values()) listeners.close();
    this.#keys.clear();
    const ended = this.#disconnect();
    await answerWithin(CLOSES_IN, () => ended).catch(() => undefined);
  }

  #open(): void {
    if (this.#stream || this.#cannotHear) return;
    let stream: ChangeStream;
    try {
      stream = this.#collection.watch(RELEASES, {
        ...READING,
        readConcern: { level: 'majority' },
        readPreference: 'primary',
      });
    } catch (error) {
      this.#failed(undefined, error);
      return;
    }
    this.#stream = stream;
    // Each answer has a token, also if nothing has changed.
    stream.on('resumeTokenChanged', () => this.#hearsNow(stream));
    stream.on('change', (change) => this.#heard(change));
    stream.on('error', (error) => this.#failed(stream, error));
    stream.on('end', () => this.#interrupted(stream));
    stream.on('close', () => this.#interrupted(stream));
  }

  /** Keys may have been released before: the first waiter of each asks again. */
  #hearsNow(stream: ChangeStream): void {
    if (this.#stream !== stream || this.#hears) return;
    this.#hears = true;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    this.#handedOnSince.clear();
    for (const listeners of this.#keys.values()) listeners.wake();
  }

  #heard(change: unknown): void {
    const { documentKey } = change as { documentKey?: { _id?: unknown } };
    if (typeof documentKey?._id === 'string') this.#keys.get(documentKey._id)?.wake();
  }

  /** Until there is another stream, waiters poll. */
  #failed(stream: ChangeStream | undefined, error: unknown): void {
    if (this.#stream !== stream) return;
    void this.#disconnect();
    if (NO_STREAMS.has(codeOf(error))) this.#cannotHear = true;
    else if (this.#keys.size > 0) this.#openLater();
  }

  /** Usually the driver goes on where it was, and says nothing if it does not. */
  #interrupted(stream: ChangeStream): void {
    if (this.#stream !== stream) return;
    this.#hears = false;
    this.#openLater();
  }

  #openLater(): void {
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => {
      void this.#disconnect();
      if (this.#keys.size > 0) this.#open();
    }, RETRY).unref();
  }

  #leave(id: string, listeners: Listeners, listener: () => void): void {
    listeners.all.delete(listener);
    if (listeners.all.size > 0 || this.#keys.get(id) !== listeners) return;
    listeners.close();
    this.#keys.delete(id);
    this.#handedOnSince.delete(id);
    if (this.#keys.size > 0) return;
    // Until then the connection keeps the process alive. The timer need not.
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => void this.#disconnect(), LINGER).unref();
  }

  /** Never rejects. Nobody but `close` waits for it: it tells a server that may be away. */
  async #disconnect(): Promise<void> {
    clearTimeout(this.#idle);
    clearTimeout(this.#retry);
    this.#retry = undefined;
    const stream = this.#stream;
    this.#stream = undefined;
    this.#hears = false;
    await stream?.close().catch(() => undefined);
  }
}
