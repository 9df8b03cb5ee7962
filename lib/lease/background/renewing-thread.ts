import { Worker } from 'node:worker_threads';
import { countsSuspension, fromLocal, toLocal } from '../../common/elapsed.js';
import type { LockError } from '../../common/errors.js';
import { answerWithin } from '../contract/replies.js';
import { storeFailure } from '../contract/errors.js';
import type { LeaseStoreSource } from '../contract/lease-store.js';
import type { Backoff } from '../contract/options.js';
import { deserializeError } from '../contract/sent-errors.js';
import type { Background, Hold } from '../hold/hold.js';
import { type Command, type Id, type LeaseReport, type Report, SharedDeadline } from './protocol.js';
import { workerFile } from './worker-file.js';

/** Options of node that a worker cannot have, though it would inherit them. */
const REFUSED = /^--(input-type|eval|print)/;

/**
 * Starts the thread that renews leases for this thread. Node ends it with this thread, however this one ends; and it does
 * not keep the process alive.
 */
function startWorker(): Worker {
  const inherits = !process.execArgv.some((argument) => REFUSED.test(argument));
  const worker = new Worker(workerFile(), {
    name: 'stripelock-renewal',
    ...(inherits ? {} : { execArgv: [] }),
  });
  worker.unref();
  return worker;
}

let running: RenewingThread | undefined;
let lastId = 0;

/** A number that was never used before in this thread. */
function newId(): Id {
  return ++lastId;
}

/**
 * The one thread that renews leases for this thread, while any manager needs it. It keeps the process alive only while
 * somebody waits for it.
 */
class RenewingThread {
  /** Undefined once the thread has ended. */
  #worker: Worker | undefined;
  readonly #leases = new Map<Id, BackgroundLease>();
  readonly #opening = new Map<Id, (error: Error | undefined) => void>();
  #users = 0;
  #awaited = 0;
  #failure: Error | undefined;

  /** Throws if a thread cannot be started. */
  constructor() {
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
  async open(store: Id, { module, ...rest }: LeaseStoreSource, backoff: Backoff): Promise<void> {
    this.#users++;
    const error = await this.during(
      new Promise<Error | undefined>((resolve) => {
        this.#opening.set(store, resolve);
        const source = { module: typeof module === 'string' ? module : module.href, ...rest };
        this.send({ op: 'open', store, source, backoff, countsSuspension: countsSuspension() });
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

  add(id: Id, lease: BackgroundLease): void {
    this.#leases.set(id, lease);
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
    const lease = this.#leases.get(report.lease);
    if (report.op === 'removed') this.#leases.delete(report.lease);
    lease?.hear(report);
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

  #forget(): BackgroundLease[] {
    this.#worker = undefined;
    if (running === this) running = undefined;
    const leases = [...this.#leases.values()];
    this.#leases.clear();
    return leases;
  }
}

/** Milliseconds in which every store answers, or gives up. */
const STUCK = 60_000;

interface Call {
  readonly resolve: (renewed: boolean) => void;
  readonly reject: (error: Error) => void;
}

/** A hold whose lease another thread renews, until the hold ends or that thread does. */
class BackgroundLease implements Background {
  readonly #hold: Hold;
  readonly #thread: RenewingThread;
  readonly #id = newId();
  readonly #shared = new SharedDeadline();
  readonly #calls = new Map<Id, Call>();
  #ending: Promise<void> | undefined;
  #removed: (() => void) | undefined;

  constructor(hold: Hold, thread: RenewingThread, store: Id) {
    this.#hold = hold;
    this.#thread = thread;
    const { name: key, owner, since, expiresAt, terms } = hold;
    const { ttl, every, maxHold } = terms;
    this.#shared.time = fromLocal(expiresAt);
    thread.add(this.#id, this);
    thread.send({
      op: 'add',
      lease: this.#id,
      store,
      key,
      owner,
      terms: { ttl, every, maxHold },
      since: fromLocal(since),
      deadline: this.#shared.memory,
    });
  }

  get deadline(): number {
    return toLocal(this.#shared.time);
  }

  renew(ttl: number, info?: string): Promise<boolean> {
    const call = newId();
    const answered = new Promise<boolean>((resolve, reject) => {
      this.#calls.set(call, { resolve, reject });
      this.#thread.send({ op: 'renew', lease: this.#id, call, ttl, info });
    });
    return this.#thread.during(answered);
  }

  end(): Promise<void> {
    return (this.#ending ??= this.#remove());
  }

  hear(report: LeaseReport): void {
    if (report.op === 'removed') {
      this.removed();
    } else if (report.op === 'answered') {
      this.#answered(report.call, report.renewed, deserializeError(report.error) as Error | undefined);
    } else if (!this.#isIdle()) {
      const hold = this.#hold;
      if (report.op === 'lost') {
        hold.lose(report.reason);
        return;
      }
      if (report.op === 'renewed') {
        hold.answered();
        hold.announceRenewal(report.ttl);
      } else hold.failed(deserializeError(report.error) as LockError);
      hold.heard();
    }
  }

  /** Nothing more is on its way to the store. */
  removed(): void {
    this.#removed?.();
    for (const { resolve } of this.#calls.values()) resolve(false);
    this.#calls.clear();
  }

  /** The thread has ended. True if the holder's own thread renews it from now on. */
  ended(error: Error): boolean {
    const failure = storeFailure('renew', this.#hold.key, error);
    const idle = this.#isIdle();
    for (const { reject } of this.#calls.values()) reject(failure);
    this.removed();
    if (idle) return false;
    this.#hold.failed(failure);
    void this.#hold.takeOver();
    return true;
  }

  #answered(id: Id, renewed: boolean, error: Error | undefined): void {
    const call = this.#calls.get(id)!;
    this.#calls.delete(id);
    if (error) call.reject(error);
    else call.resolve(renewed);
  }

  async #remove(): Promise<void> {
    const thread = this.#thread;
    if (thread.ended) return;
    const removed = new Promise<void>((resolve) => {
      this.#removed = resolve;
      thread.send({ op: 'remove', lease: this.#id });
    });
    // A store that does not keep to a time limit must not keep a release waiting for ever.
    await thread.during(answerWithin(STUCK, () => removed).catch(() => undefined));
  }

  /** Whether the hold no longer depends on this. */
  #isIdle(): boolean {
    return this.#ending !== undefined || this.#hold.ended;
  }
}

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
    hold.attach(new BackgroundLease(hold, opened.thread, opened.store));
  }

  /** The manager has no leases any more. */
  close(): void {
    this.#closed = true;
    const opened = this.#open;
    this.#open = undefined;
    if (opened !== undefined && !opened.thread.ended) opened.thread.close(opened.store);
  }

  async #start(): Promise<Opened> {
    const thread = (running ??= new RenewingThread());
    const store = newId();
    await thread.open(store, this.#source, this.#backoff);
    return { thread, store };
  }
}
