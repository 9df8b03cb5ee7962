import { setTimeout } from '../../common/host.js';
import { LockError } from '../../common/errors.js';
import { LeaseStoreError, messageOf, storeDenied } from '../../lease/contract/errors.js';
import { Replies, type Awaited } from '../../lease/contract/replies.js';

/** What to do if an operation is not answered in time. */
export interface Late<T> {
  timedOut(): void;
  /** Called when it was answered after all, or failed without a result. */
  settled(result?: T): void;
}

/**
 * Two clients made the same document at once, or changed it at once. Nothing was changed, and it says nothing about who has
 * the key: ask again.
 */
const COLLISIONS: ReadonlySet<unknown> = new Set([11000, 112]);
/** Milliseconds between attempts that collide: at first, and at most. */
const FIRST_PAUSE = 1;
const LONGEST_PAUSE = 25;

/**
 * What engines answer that do not know an update by a pipeline, `$$NOW` in it, or an expression in a projection: failed to
 * parse, no such command, option not supported, no such operator, not implemented; the undefined variable, the unknown
 * stage; and those of Amazon's engine.
 */
const NOT_UNDERSTOOD: ReadonlySet<unknown> = new Set([9, 59, 72, 115, 168, 238, 303, 304, 17276, 40324]);
/** The same, as a bad value. */
const BAD_VALUE = 2;
/** Missing rights, a wrong user or password. */
const DENIED: ReadonlySet<unknown> = new Set([13, 18]);

/** Operations on a collection, each within the time limit. */
export class Requests {
  readonly #replies: Replies;
  readonly #ready: () => Promise<void>;
  #closed = false;

  /** `timeout`: in milliseconds. `ready`: awaited before each operation, within its time limit. */
  constructor(timeout: number, ready: () => Promise<void>) {
    this.#replies = new Replies(timeout, 'MongoDB');
    this.#ready = ready;
  }

  /**
   * Rejects with a LeaseStoreError if that rejects or takes too long, with a LockError (ERR_MONGODB_UNSUPPORTED) if the
   * engine does not understand it.
   */
  run<T>(operation: () => Promise<T>, late?: Late<T>): Promise<T> {
    if (this.#closed) return Promise.reject(new LeaseStoreError('the MongoDB lease store was closed'));
    return new Promise((resolve, reject) => {
      const awaited = this.#replies.expect((error) => {
        late?.timedOut();
        reject(error);
      });
      this.#attempt(operation, awaited).then(
        (result) => {
          if (this.#replies.arrived(awaited)) resolve(result);
          else late?.settled(result);
        },
        (error: unknown) => {
          if (!this.#replies.arrived(awaited)) late?.settled();
          reject(failureOf(error));
        },
      );
    });
  }

  close(): void {
    this.#closed = true;
  }

  /** Until it does not collide. Once the time limit has passed, nobody waits for it any more, and it is not sent. */
  async #attempt<T>(operation: () => Promise<T>, awaited: Awaited): Promise<T> {
    await this.#ready();
    for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      if (awaited.isLate) throw new LeaseStoreError('MongoDB was not asked in time');
      try {
        return await operation();
      } catch (error) {
        if (!COLLISIONS.has(codeOf(error))) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random())));
    }
  }
}

/** The code of an error of the server. */
export function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code;
}

function failureOf(error: unknown): LockError {
  if (error instanceof LockError) return error;
  const reason = messageOf(error);
  const code = codeOf(error);
  if (DENIED.has(code)) return storeDenied('MongoDB', error);
  const notUnderstood =
    NOT_UNDERSTOOD.has(code) || (code === BAD_VALUE && /unsupported|not support/i.test(reason));
  if (!notUnderstood) return new LeaseStoreError(`MongoDB failed: ${reason}`, error);
  return new LockError(
    'ERR_MONGODB_UNSUPPORTED',
    `the server does not understand what leases need, which MongoDB 4.4 and later do: updates by a pipeline, with $$NOW: ${reason}`,
    { cause: error },
  );
}
