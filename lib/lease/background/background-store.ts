import type { LeaseStoreSource } from '../contract/lease-store.js';
import type { Backoff } from '../contract/options.js';
import type { Hold } from '../hold/hold.js';
import { BackgroundLease } from './background-lease.js';
import { newId, RenewingThread } from './renewing-thread.js';
import type { Id } from './protocol.js';

interface Opened {
  readonly thread: RenewingThread;
  readonly store: Id;
}

/** A manager's store as another thread has it open. That thread starts with the first acquisition that needs it. */
export class BackgroundStore {
  readonly #source: LeaseStoreSource;
  readonly #backoff: Backoff;
  #opened: Promise<Opened> | undefined;
  #open: Opened | undefined;
  #closed = false;

  constructor(source: LeaseStoreSource, backoff: Backoff) {
    this.#source = source;
    this.#backoff = backoff;
  }

  /** Resolves when leases can be renewed. Rejects if the thread cannot be started or cannot open the store. */
  async ready(): Promise<void> {
    if (this.#open !== undefined && !this.#open.thread.ended) return;
    this.#opened ??= this.#start().finally(() => {
      this.#opened = undefined;
    });
    this.#open = await this.#opened;
    if (this.#closed) this.close();
  }

  /** Has the hold renewed there. If that thread has ended, the event loop renews it. */
  add(hold: Hold): void {
    const opened = this.#open;
    if (opened === undefined || opened.thread.ended) return;
    hold.renewals.attach(new BackgroundLease(hold, opened.thread, opened.store));
  }

  /** The manager has no leases any more. */
  close(): void {
    this.#closed = true;
    const opened = this.#open;
    this.#open = undefined;
    if (opened !== undefined && !opened.thread.ended) opened.thread.close(opened.store);
  }

  async #start(): Promise<Opened> {
    const thread = RenewingThread.get();
    const store = newId();
    await thread.open(store, this.#source, this.#backoff);
    return { thread, store };
  }
}
