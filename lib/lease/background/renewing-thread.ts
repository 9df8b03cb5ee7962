import type { Worker } from 'node:worker_threads';
import { countsSuspension } from '../../common/elapsed.js';
import type { LockError } from '../../common/errors.js';
import type { LeaseStoreSource } from '../contract/lease-store.js';
import type { Backoff } from '../contract/options.js';
import { deserializeError } from '../contract/sent-errors.js';
import type { Id, Report, Command } from './protocol.js';
import { startWorker } from './start.js';

/** A lease that the thread renews, as its holder sees it. */
export interface Listener {
  renewed(ttl: number): void;
  failed(error: LockError): void;
  lost(reason: string): void;
  removed(): void;
  answered(call: Id, renewed: boolean, error: Error | undefined): void;
  /** The thread has ended. True if the holder's own thread renews it from now on. */
  ended(error: Error): boolean;
}

let running: RenewingThread | undefined;
let lastId = 0;

/** A number that was never used before in this thread. */
export function newId(): Id {
  return ++lastId;
}

/**
 * The one thread that renews leases for this thread, while any manager needs it. It keeps the process alive only while
 * somebody waits for it.
 */
export class RenewingThread {
  /** Undefined once the thread has ended. */
  #worker: Worker | undefined;
  readonly #leases = new Map<Id, Listener>();
  readonly #opening = new Map<Id, (error: Error | undefined) => void>();
  #users = 0;
  #awaited = 0;
  #failure: Error | undefined;

  /** The running thread, or a new one. Throws if a thread cannot be started. */
  static get(): RenewingThread {
    return (running ??= new RenewingThread());
  }

  private constructor() {
    const worker = startWorker();
    this.#worker = worker;
    worker.on('message', (report: Report) => this.#hear(report));
    worker.on('error', (error) => {
      this.#failure = error;
    });
    worker.on('exit', (code) => this.#end(code));
  }

  get ended(): boolean {
    return this.#worker === undefined;
  }

  /** Opens a store. Rejects if that fails, or if the thread ends before. */
  async open(store: Id, { module, name, options }: LeaseStoreSource, backoff: Backoff): Promise<void> {
    this.#users++;
    const error = await this.during(
      new Promise<Error | undefined>((resolve) => {
        this.#opening.set(store, resolve);
        const command = {
          op: 'open',
          store,
          module: typeof module === 'string' ? module : module.href,
          name,
          options,
          backoff,
        } as const;
        this.send({ ...command, countsSuspension: countsSuspension() });
      }),
    );
    this.#opening.delete(store);
    if (error === undefined) return;
    this.close(store);
    throw error;
  }

  /** To be called once for each call of {@link open}. The thread ends with its last store. */
  close(store: Id): void {
    this.send({ op: 'close', store });
    if (--this.#users > 0 || this.#worker === undefined) return;
    const worker = this.#worker;
    // Those who wait for an answer get none. No lease of an open manager is here.
    for (const lease of this.#forget()) lease.removed();
    void worker.terminate();
  }

  add(lease: Id, listener: Listener): void {
    this.#leases.set(lease, listener);
  }

  /** Nothing arrives any more if the thread has ended. */
  send(command: Command): void {
    this.#worker?.postMessage(command);
  }

  /** Keeps the process alive until the promise settles. */
  async during<T>(promise: Promise<T>): Promise<T> {
    if (this.#awaited++ === 0) this.#worker?.ref();
    try {
      return await promise;
    } finally {
      if (--this.#awaited === 0) this.#worker?.unref();
    }
  }

  #hear(report: Report): void {
    if (report.op === 'opened') {
      this.#opening.get(report.store)?.(deserializeError(report.error) as Error | undefined);
      return;
    }
    const listener = this.#leases.get(report.lease);
    switch (report.op) {
      case 'renewed':
        listener?.renewed(report.ttl);
        break;
      case 'failed':
        listener?.failed(deserializeError(report.error) as LockError);
        break;
      case 'lost':
        listener?.lost(report.reason);
        break;
      case 'removed':
        this.#leases.delete(report.lease);
        listener?.removed();
        break;
      case 'answered':
        listener?.answered(report.call, report.renewed, deserializeError(report.error) as Error | undefined);
        break;
    }
  }

  /** It was terminated by somebody else, or has failed. */
  #end(code: number): void {
    if (this.#worker === undefined) return;
    const why = this.#failure === undefined ? `exit code ${code}` : this.#failure.message;
    const error = new Error(`the thread that renews leases has ended: ${why}`, { cause: this.#failure });
    const leases = this.#forget();
    for (const opened of this.#opening.values()) opened(error);
    const left = leases.filter((lease) => lease.ended(error)).length;
    if (left === 0) return;
    process.emitWarning(`${error.message}. From now on the event loop renews its leases: ${left}`, {
      type: 'StripelockWarning',
      code: 'STRIPELOCK_RENEWAL_ENDED',
    });
  }

  #forget(): Listener[] {
    this.#worker = undefined;
    if (running === this) running = undefined;
    const leases = [...this.#leases.values()];
    this.#leases.clear();
    return leases;
  }
}
