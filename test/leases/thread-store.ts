import type { LeaseState, LeaseStore, MemoryLeaseStore } from 'stripelock';
import { Worker } from 'node:worker_threads';
import { workerScript } from '../support/threads.js';

interface Reply {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: { name: string; message: string; code?: string };
}

/** A memory lease store that is open in another thread: every call runs there. */
export class ThreadStore implements LeaseStore {
  readonly #worker: Worker;
  readonly #calls = new Map<number, { resolve(result: unknown): void; reject(error: Error): void }>();
  #count = 0;

  /** `time`: shared memory that contains the time, if the store has a clock of its own. */
  constructor(store: MemoryLeaseStore, time?: Float64Array) {
    this.#worker = new Worker(workerScript('lease-store.mjs'), {
      workerData: { handle: store.handle, time },
      env: { ...process.env },
    });
    this.#worker.on('message', ({ id, result, error }: Reply) => {
      const call = this.#calls.get(id)!;
      this.#calls.delete(id);
      if (error) call.reject(Object.assign(new Error(error.message), error));
      else call.resolve(result);
    });
  }

  tryAcquire(key: string, owner: string, ttl: number): Promise<bigint | undefined> {
    return this.#call('tryAcquire', key, owner, ttl);
  }

  renew(key: string, owner: string, ttl: number): Promise<boolean> {
    return this.#call('renew', key, owner, ttl);
  }

  release(key: string, owner: string): Promise<boolean> {
    return this.#call('release', key, owner);
  }

  inspect(key: string): Promise<LeaseState | undefined> {
    return this.#call('inspect', key);
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #call<T>(method: string, ...args: unknown[]): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const id = this.#count++;
      this.#calls.set(id, { resolve: (result) => resolve(result as T), reject });
      this.#worker.postMessage({ id, method, args });
    });
  }
}
