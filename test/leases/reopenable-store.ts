import type { Worker } from 'node:worker_threads';
import {
  MemoryLeaseStore,
  type ExactLeaseStore,
  type LeaseStoreSource,
  type ReopenableLeaseStore,
} from 'stripelock';
import { workerScript } from '../support/threads.js';

/** A store like one outside the process, which the thread that renews leases can open, and in which it can fail. */
export class ReopenableStore implements ReopenableLeaseStore, ExactLeaseStore {
  readonly inner = new MemoryLeaseStore();
  readonly source: LeaseStoreSource;
  /** What this thread has asked, in order. */
  readonly asked: string[] = [];
  readonly #control = new Int32Array(new SharedArrayBuffer(20));

  constructor(source: Partial<LeaseStoreSource> = {}, broken = false) {
    const module = workerScript('reopened-store.mjs');
    const options = { handle: this.inner.handle, control: this.#control.buffer, broken };
    this.source = { module, name: 'open', options, ...source };
  }

  /** Milliseconds by which the other thread's renewals are late. Negative: they stop on their way to the store. */
  set late(milliseconds: number) {
    Atomics.store(this.#control, 0, milliseconds);
  }

  /** Whether the other thread's renewals fail. */
  set failing(fails: boolean) {
    Atomics.store(this.#control, 1, fails ? 1 : 0);
  }

  /** Whether a renewal of the other thread is on its way to the store. */
  get isRenewing(): boolean {
    return Atomics.load(this.#control, 4) > this.answered;
  }

  /** How many of the other thread's renewals were answered. */
  get answered(): number {
    return Atomics.load(this.#control, 2);
  }

  /** Has the other thread end when it renews next. */
  endThread(): void {
    Atomics.store(this.#control, 3, 1);
  }

  tryAcquire(key: string, owner: string, ttl: number, info?: string): Promise<bigint | undefined> {
    this.asked.push('tryAcquire');
    return this.inner.tryAcquire(key, owner, ttl, info);
  }

  renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    this.asked.push('renew');
    return this.inner.renew(key, owner, ttl, info);
  }

  keep(key: string, owner: string, ttl: number, token: bigint): Promise<boolean> {
    this.asked.push('keep');
    return this.inner.keep(key, owner, ttl, token);
  }

  release(key: string, owner: string, token?: bigint): Promise<boolean> {
    this.asked.push('release');
    return this.inner.release(key, owner, token);
  }

  inspect(key: string): ReturnType<MemoryLeaseStore['inspect']> {
    return this.inner.inspect(key);
  }
}

/** The next thread that this one starts. */
export function nextThread(): Promise<Worker> {
  return new Promise((resolve) => process.once('worker', resolve));
}
