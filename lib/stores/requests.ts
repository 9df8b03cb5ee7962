import { clearTimeout, setTimeout } from '../common/host.js';
import { LockError } from '../common/errors.js';
import { LeaseStoreError, messageOf } from '../lease/contract/errors.js';
import { Replies } from '../lease/contract/replies.js';

/** The first and the longest pause between retries of an operation, in milliseconds. */
const FIRST_PAUSE = 1;
const LONGEST_PAUSE = 25;

/** One operation of a store. An operation may need several requests, all within one time limit. */
export class Operation {
  /**
   * The last failure after which the backend retried. If the time limit passes, the operation's error states
   * this failure as the reason.
   */
  failure: unknown;
  /**
   * Whether the time limit has passed. If so, the call has already been rejected, and the backend need not
   * send more requests.
   */
  isLate = false;
  #aborts: Set<() => void> | undefined;

  /**
   * `isSubscribed`: whether the store is subscribed to releases by other stores when the operation starts.
   */
  constructor(readonly isSubscribed: boolean) {}

  /** Calls `abort` when the time limit passes, unless the returned function was called before. */
  onLate(abort: () => void): () => void {
    const aborts = (this.#aborts ??= new Set());
    aborts.add(abort);
    return () => aborts.delete(abort);
  }

  /** Resolves after the given number of milliseconds, or earlier if the time limit passes. */
  pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        forget();
        resolve();
      };
      const forget = this.onLate(done);
      const timer = setTimeout(done, milliseconds);
    });
  }

  end(): void {
    this.isLate = true;
    for (const abort of this.#aborts ?? []) abort();
  }
}

/** The time limit of an operation, or of background work. Background work has no limit, and so no `onLate`. */
export type TimeLimit = Pick<Operation, 'isLate'> & Partial<Pick<Operation, 'onLate'>>;

/** The time limit of background requests, which are never late, because no caller waits for the answers. */
export const NEVER_LATE: TimeLimit = { isLate: false };

/** The properties of a backend that {@link Requests} uses. */
export interface Asked {
  /** The name of the server, for messages. */
  readonly title: string;
  /**
   * Whether to retry the operation after this error. True if the failed attempt changed nothing, or if a
   * repetition is harmless.
   */
  retries?(error: unknown, operation: Operation): boolean;
  /** Returns the error for the caller if no retry can succeed; undefined if a retry may succeed. */
  permanent?(error: unknown): LockError | undefined;
  /** Returns the reason for a missing connection, if known. */
  unreachable?(): unknown;
}

/** Runs operations on a server. All operations have the same time limit. */
export class Requests {
  readonly #asked: Asked;
  readonly #replies: Replies;
  #closed = false;

  /** `timeout` is in milliseconds. */
  constructor(asked: Asked, timeout: number) {
    this.#asked = asked;
    this.#replies = new Replies(timeout, asked.title);
  }

  /**
   * Rejects with a LeaseStoreError, or with another LockError if no retry can succeed. Calls `late` with an
   * answer that arrives after the time limit.
   */
  run<T>(operation: Operation, ask: () => Promise<T>, late?: (answer: T) => void): Promise<T> {
    if (this.#closed) return Promise.reject(new LeaseStoreError(this.#closedMessage));
    return new Promise((resolve, reject) => {
      const awaited = this.#replies.expect((error) => {
        operation.end();
        reject(this.#explained(error.message, operation.failure));
      });
      this.#answer(operation, ask).then(
        (result) => {
          if (this.#replies.arrived(awaited)) resolve(result);
          else late?.(result);
        },
        (error: unknown) => {
          this.#replies.arrived(awaited);
          reject(this.#failureOf(error));
        },
      );
    });
  }

  close(): void {
    this.#closed = true;
  }

  get #closedMessage(): string {
    return `the lease store over ${this.#asked.title} was closed`;
  }

  async #answer<T>(operation: Operation, ask: () => Promise<T>): Promise<T> {
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      try {
        return await ask();
      } catch (error) {
        if (error instanceof LockError || this.#asked.retries?.(error, operation) !== true) throw error;
      }
      await operation.pause(pause * (0.5 + Math.random()));
      if (operation.isLate) throw NOT_ASKED;
    }
  }

  #failureOf(error: unknown): LockError {
    if (error instanceof LockError) return error;
    if (this.#closed)
      return new LeaseStoreError(`${this.#closedMessage} before ${this.#asked.title} answered`, error);
    const permanent = this.#asked.permanent?.(error);
    return permanent ?? this.#explained(`${this.#asked.title} failed: ${messageOf(error)}`, undefined, error);
  }

  #explained(message: string, failure: unknown, error?: unknown): LeaseStoreError {
    const why = this.#asked.unreachable?.() ?? failure;
    return why === undefined
      ? new LeaseStoreError(message, error)
      : new LeaseStoreError(`${message}: ${messageOf(why)}`, why);
  }
}

/**
 * Thrown if the time limit passes before a request is sent. No caller sees it, because the call was already
 * rejected.
 */
export const NOT_ASKED = new Error('the caller has given up');
