import { queueMicrotask } from '../../common/host.js';
import { NOT_ASKED, Operation } from '../requests.js';
import { EtcdFailure } from './gateway.js';

/**
 * The maximum number of keys in a transaction. By default, etcd allows 128 comparisons or operations in a
 * transaction. A transaction needs up to two comparisons or operations for each key, and one comparison for the
 * token base. If transactions share a request, each of them counts as one more operation.
 */
export const MOST_KEYS = 63;

interface Queued<R, A> {
  readonly request: R;
  readonly operation: Operation;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Combines requests of one kind into batches, regardless of their owners. Requests of the same turn of the
 * event loop share a batch. Requests also share a batch if they queue while the maximum number of batches is
 * pending. Under load, each batch therefore serves more keys.
 */
export class Batches<R extends { readonly names: readonly string[] }, A> {
  readonly #most: number;
  readonly #ask: (requests: readonly R[], operation: Operation) => Promise<readonly A[]>;
  #waiting: Queued<R, A>[] = [];
  #underWay = 0;

  /** `most` is the maximum number of pending batches. */
  constructor(most: number, ask: (requests: readonly R[], operation: Operation) => Promise<readonly A[]>) {
    this.#most = most;
    this.#ask = ask;
  }

  get isIdle(): boolean {
    return this.#waiting.length === 0 && this.#underWay === 0;
  }

  add(request: R, operation: Operation): Promise<A> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ request, operation, resolve, reject });
      if (this.#waiting.length === 1) queueMicrotask(() => this.#sendAll());
    });
  }

  #sendAll(): void {
    while (this.#waiting.length > 0 && this.#underWay < this.#most) {
      const batch = this.#next();
      if (batch.length > 0) void this.#send(batch);
    }
  }

  /**
   * Removes from the queue the requests that fit into one transaction, and returns them. Rejects
   * requests whose operations are late. A transaction cannot write a key twice, so requests for the same key
   * need separate batches.
   */
  #next(): Queued<R, A>[] {
    const batch: Queued<R, A>[] = [];
    const names = new Set<string>();
    this.#waiting = this.#waiting.filter((one) => {
      if (one.operation.isLate) {
        one.reject(NOT_ASKED);
        return false;
      }
      const asked = one.request.names;
      const fits = names.size + asked.length <= MOST_KEYS && !asked.some((name) => names.has(name));
      if (!fits && batch.length > 0) return true;
      batch.push(one);
      for (const name of asked) names.add(name);
      return false;
    });
    return batch;
  }

  async #send(batch: readonly Queued<R, A>[]): Promise<void> {
    this.#underWay++;
    try {
      const answers = await this.#ask(
        batch.map(({ request }) => request),
        operationOf(batch.map(({ operation }) => operation)),
      );
      batch.forEach(({ resolve }, i) => resolve(answers[i]!));
    } catch (error) {
      // A single request may have caused the failure, for example because the value at its key is not a
      // lease. So each request is sent again alone, unless the servers may have executed the batch.
      const isOne = batch.length > 1 && !(error instanceof EtcdFailure && error.uncertain);
      for (const one of batch) {
        if (isOne) void this.#send([one]);
        else one.reject(error);
      }
    } finally {
      this.#underWay--;
      this.#sendAll();
    }
  }
}

/** Returns an operation that becomes late once all of the given operations are late. */
function operationOf(operations: readonly Operation[]): Operation {
  if (operations.length === 1) return operations[0]!;
  const together = new Operation(operations.every(({ isSubscribed }) => isSubscribed));
  let left = operations.length;
  for (const operation of operations) {
    operation.onLate(() => {
      operation.failure = together.failure;
      if (--left === 0) together.end();
    });
  }
  return together;
}
