import { Worker } from 'node:worker_threads';
import { countsSuspension, fromLocal, toLocal } from '../common/elapsed.js';
import { LockError } from '../common/errors.js';
import { warn } from '../common/warnings.js';
import { answerWithin } from './contract/replies.js';
import { storeFailure } from './contract/errors.js';
import type { LeaseStoreSource } from './contract/lease-store.js';
import type { Backoff } from './contract/options.js';
import { deserializeError } from './contract/sent-errors.js';
import type { Background, Hold } from './hold.js';
import {
  type AddCommand,
  type Command,
  type Id,
  type LeaseReport,
  type Report,
  SharedDeadline,
} from './renewing-protocol.js';
import { workerFile } from './worker-file.js';

/** Command-line options of Node that a worker would inherit, but does not accept. */
const REFUSED = /^--(input-type|eval|print)/;
/** Every store answers a request, or gives it up, within this many milliseconds. */
const STUCK = 60_000;

/**
 * Starts the thread that renews leases for the current thread. Node ends the new thread when the current
 * thread ends, for any reason. The new thread does not keep the process alive.
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

/** Returns a number that was never used before in this thread. */
function newId(): Id {
  return ++lastId;
}

/** The functions that settle the promise of a command when its answer arrives. */
interface Call {
  readonly resolve: (result: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A {@link Command} that needs an answer, without the field `call`. This field is added when the command is
 * sent.
 */
type Question = Command extends infer C ? (C extends { readonly call: Id } ? Omit<C, 'call'> : never) : never;

/**
 * The thread that renews leases for the current thread. Each thread has at most one such thread, which runs
 * while any manager needs it. It keeps the process alive only while a command has no answer.
 */
class RenewingThread {
  /** Undefined once the thread has ended. */
  #worker: Worker | undefined;
  readonly #leases = new Map<Id, BackgroundLease>();
  readonly #calls = new Map<Id, Call>();
  #users = 0;
  #failure: Error | undefined;

  /** Starts the thread. Throws if that fails. */
  constructor() {
    const worker = startWorker();
    this.#worker = worker;
    worker.on('message', (report: Report) => this.#receive(report));
    worker.on('error', (error) => {
      this.#failure = error;
    });
    worker.on('exit', (code) => this.#end(code));
  }

  get ended(): boolean {
    return this.#worker === undefined;
  }

  /** Opens a store in the thread. Rejects if that fails, or if the thread ends before the store is open. */
  async open(store: Id, { module, ...rest }: LeaseStoreSource, backoff: Backoff): Promise<void> {
    this.#users++;
    const source = { module: typeof module === 'string' ? module : module.href, ...rest };
    try {
      await this.ask({ op: 'open', store, source, backoff, countsSuspension: countsSuspension() });
    } catch (error) {
      this.close(store);
      throw error;
    }
  }

  /**
   * Closes a store in the thread. Call this once for each {@link open} that succeeded. The thread ends when
   * its last store is closed.
   */
  close(store: Id): void {
    this.#worker?.postMessage({ op: 'close', store } satisfies Command);
    if (--this.#users > 0 || this.#worker === undefined) return;
    const worker = this.#worker;
    // The managers that used the thread are closed, so no caller needs an answer any more.
    this.#forget();
    for (const { resolve } of this.#calls.values()) resolve(false);
    void worker.terminate();
  }

  /** Starts renewing the lease, and passes the thread's reports to `lease` until {@link remove} is called. */
  add(lease: BackgroundLease, command: AddCommand): void {
    this.#leases.set(command.lease, lease);
    this.#worker?.postMessage(command);
  }

  /**
   * Stops renewing the lease. Resolves when no renewal of the lease is in progress, or after `STUCK`
   * milliseconds.
   */
  async remove(lease: Id): Promise<void> {
    // A store that never answers must not block a release forever.
    await this.ask({ op: 'remove', lease }, STUCK).catch(() => undefined);
    this.#leases.delete(lease);
  }

  /**
   * Sends a command and waits for its answer. Rejects if the command fails, if the thread ends, or after
   * `limit` milliseconds.
   */
  async ask(question: Question, limit?: number): Promise<boolean> {
    const call = newId();
    const answer = new Promise<boolean>((resolve, reject) => {
      if (this.#worker === undefined) throw this.#error('');
      this.#worker.postMessage({ ...question, call });
      if (this.#calls.size === 0) this.#worker.ref();
      this.#calls.set(call, { resolve, reject });
    });
    try {
      return await (limit === undefined ? answer : answerWithin(limit, () => answer));
    } finally {
      this.#calls.delete(call);
      if (this.#calls.size === 0) this.#worker?.unref();
    }
  }

  #receive(report: Report): void {
    if (report.op !== 'answered') {
      this.#leases.get(report.lease)?.receive(report);
      return;
    }
    const call = this.#calls.get(report.call);
    if (report.error === undefined) call?.resolve(report.result);
    else call?.reject(deserializeError(report.error));
  }

  /**
   * Called when the thread has ended. If its last store had already been closed, there is nothing left
   * to do. Otherwise the thread has failed, or other code has terminated it. In that case the current
   * thread continues the renewals.
   */
  #end(code: number): void {
    if (this.#worker === undefined) return;
    const error = this.#error(`: ${this.#failure?.message ?? `exit code ${code}`}`);
    const leases = this.#forget();
    for (const { reject } of this.#calls.values()) reject(error);
    const left = leases.filter((lease) => lease.takeOver(error)).length;
    if (left === 0) return;
    warn(
      'STRIPELOCK_RENEWAL_ENDED',
      `${error.message}. From now on the event loop renews its leases: ${left}`,
    );
  }

  #error(why: string): Error {
    return new Error(`the thread that renews leases has ended${why}`, { cause: this.#failure });
  }

  #forget(): BackgroundLease[] {
    this.#worker = undefined;
    if (running === this) running = undefined;
    const leases = [...this.#leases.values()];
    this.#leases.clear();
    return leases;
  }
}

/**
 * The connection of a hold to the renewing thread. The renewing thread renews the lease until the hold or
 * that thread ends.
 */
class BackgroundLease implements Background {
  readonly #hold: Hold;
  readonly #thread: RenewingThread;
  readonly #id = newId();
  readonly #shared = new SharedDeadline();
  #ending: Promise<void> | undefined;

  constructor(hold: Hold, thread: RenewingThread, store: Id) {
    this.#hold = hold;
    this.#thread = thread;
    const { key, name, owner, token, since, expiresAt, terms } = hold;
    this.time = expiresAt;
    thread.add(this, {
      op: 'add',
      lease: this.#id,
      store,
      key,
      name,
      owner,
      token,
      // The option `warning` contains a function, which cannot be posted. The current thread calls that
      // function.
      terms: { ...terms, warning: undefined },
      since: fromLocal(since),
      deadline: this.#shared.memory,
    });
  }

  get time(): number {
    return toLocal(this.#shared.time);
  }

  set time(time: number) {
    this.#shared.time = fromLocal(time);
  }

  async renew(ttl: number, info?: string): Promise<boolean> {
    try {
      return await this.#thread.ask({ op: 'renew', lease: this.#id, ttl, info });
    } catch (error) {
      throw error instanceof LockError ? error : storeFailure('renew', this.#hold.key, error);
    }
  }

  end(): Promise<void> {
    return (this.#ending ??= this.#thread.remove(this.#id));
  }

  receive(report: LeaseReport): void {
    const hold = this.#hold;
    if (this.#isIdle) return;
    if (report.op === 'lost') {
      hold.lose(report.reason);
      return;
    }
    if (report.op === 'failed') {
      hold.failed(deserializeError(report.error) as LockError);
    } else {
      hold.answered();
      hold.announceRenewal(report.ttl);
    }
    hold.plan();
  }

  /** Call when the renewing thread has ended. True if the holder's thread now continues the renewals. */
  takeOver(error: Error): boolean {
    if (this.#isIdle) return false;
    this.#hold.failed(storeFailure('renew', this.#hold.key, error));
    void this.#hold.takeOver();
    return true;
  }

  /** Whether the hold has ended, or no longer uses the renewing thread. */
  get #isIdle(): boolean {
    return this.#ending !== undefined || this.#hold.ended;
  }
}

interface Opened {
  readonly thread: RenewingThread;
  readonly store: Id;
}

/**
 * A manager's store, opened again in the renewing thread. The renewing thread starts with the first
 * acquisition that needs it.
 */
export class BackgroundStore {
  readonly #source: LeaseStoreSource;
  readonly #backoff: Backoff;
  #opening: Promise<Opened> | undefined;
  #opened: Opened | undefined;
  #closed = false;

  constructor(source: LeaseStoreSource, backoff: Backoff) {
    this.#source = source;
    this.#backoff = backoff;
  }

  /**
   * Starts the thread and opens the store in it, unless both were done before. Once the promise has resolved,
   * the thread can renew leases. Rejects if the thread cannot be started or cannot open the store.
   */
  async ready(): Promise<void> {
    if (this.#opened?.thread.ended === false) return;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    this.#opened = await this.#opening;
    if (this.#closed) this.close();
  }

  /**
   * Lets the renewing thread renew the hold. If the renewing thread has ended, the current thread renews the
   * hold.
   */
  add(hold: Hold): void {
    const opened = this.#opened;
    if (opened?.thread.ended !== false) return;
    hold.attach(new BackgroundLease(hold, opened.thread, opened.store));
  }

  /** Closes the store in the renewing thread. Call when the manager has no leases any more. */
  close(): void {
    this.#closed = true;
    const opened = this.#opened;
    this.#opened = undefined;
    if (opened?.thread.ended === false) opened.thread.close(opened.store);
  }

  async #open(): Promise<Opened> {
    const thread = (running ??= new RenewingThread());
    const store = newId();
    await thread.open(store, this.#source, this.#backoff);
    return { thread, store };
  }
}
