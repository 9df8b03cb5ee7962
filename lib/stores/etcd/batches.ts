import { queueMicrotask } from '../../common/host.js';
import { NOT_ASKED, Operation } from '../requests.js';
import { EtcdFailure } from './gateway.js';

/** A transaction has at most 128 conditions, unless the servers are told otherwise: one, and two for each key. */
export const MOST_KEYS = 63;

interface Queued<R, A> {
  readonly request: R;
  readonly operation: Operation;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Requests of one kind, of any owners, that go to the servers together: those that are made in the same turn of the event
 * loop, and those that are made while the most batches allowed have no answer. The busier servers and machine are, the fewer
 * requests there are for each key.
 */
export class Batches<R extends { readonly names: readonly string[] }, A> {
  readonly #most: number;
  readonly #ask: (requests: readonly R[], operation: Operation) => Promise<readonly A[]>;
  #waiting: Queued<R, A>[] = [];
  #underWay = 0;

  /** `most`: batches under way. */
  constructor(most: number, ask: (requests: readonly R[], operation: Operation) => Promise<readonly A[]>) {
    this.#most = most;
    this.#ask = ask;
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

  /** Those that fit into one transaction, which cannot write a key twice. */
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
      // The servers have refused what one of them asks for, or what stands at its key is not a lease.
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

/** It ends when nobody waits for any of them. */
function operationOf(operations: readonly Operation[]): Operation {
  if (operations.length === 1) return operations[0]!;
  const together = new Operation(operations.every(({ hears }) => hears));
  let left = operations.length;
  for (const operation of operations) {
    operation.onLate(() => {
      operation.failure = together.failure;
      if (--left === 0) together.end();
    });
  }
  return together;
}
