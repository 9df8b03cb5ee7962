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

/** Options of node that a worker cannot have, though it would inherit them. */
const REFUSED = /^--(input-type|eval|print)/;
/** Milliseconds in which every store answers, or gives up. */
const STUCK = 60_000;

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

/** A command whose answer this thread waits for. */
interface Call {
  readonly resolve: (result: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** A {@link Command} that is answered, before it has a number. */
type Question = Command extends infer C ? (C extends { readonly call: Id } ? Omit<C, 'call'> : never) : never;

/**
 * The one thread that renews leases for this thread, while any manager needs it. It keeps the process alive only while a
 * command has no answer yet.
 */
class RenewingThread {
  /** Undefined once the thread has ended. */
  #worker: Worker | undefined;
  readonly #leases = new Map<Id, BackgroundLease>();
  readonly #calls = new Map<Id, Call>();
  #users = 0;
  #failure: Error | undefined;

  /** Throws if a thread cannot be started. */
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

  /** Opens a store. Rejects if that fails, or if the thread ends before. */
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

  /** To be called once for each call of {@link open}. The thread ends with its last store. */
  close(store: Id): void {
    this.#worker?.postMessage({ op: 'close', store } satisfies Command);
    if (--this.#users > 0 || this.#worker === undefined) return;
    const worker = this.#worker;
    // No lease of an open manager is here, so no caller needs an answer.
    this.#forget();
    for (const { resolve } of this.#calls.values()) resolve(false);
    void worker.terminate();
  }

  /** Renews the lease, and notifies it, until {@link remove}. */
  add(lease: BackgroundLease, command: AddCommand): void {
    this.#leases.set(command.lease, lease);
    this.#worker?.postMessage(command);
  }

  /** Resolves when no renewal of the lease is on its way to the store. */
  async remove(lease: Id): Promise<void> {
    if (this.ended) return;
    // A store without a time limit must not block a release for ever.
    await this.ask({ op: 'remove', lease }, STUCK).catch(() => undefined);
    this.#leases.delete(lease);
  }

  /** Rejects if the command fails, if the thread ends, or after `limit` milliseconds. */
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

  /** It was terminated by other code, or has failed. */
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

/** A hold whose lease another thread renews, until the hold ends or that thread does. */
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
      // A function cannot be posted, and this thread warns.
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

  /** The thread has ended. True if the holder's own thread renews it from now on. */
  takeOver(error: Error): boolean {
    if (this.#isIdle) return false;
    this.#hold.failed(storeFailure('renew', this.#hold.key, error));
    void this.#hold.takeOver();
    return true;
  }

  /** Whether the hold no longer depends on this. */
  get #isIdle(): boolean {
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
  #opening: Promise<Opened> | undefined;
  #opened: Opened | undefined;
  #closed = false;

  constructor(source: LeaseStoreSource, backoff: Backoff) {
    this.#source = source;
    this.#backoff = backoff;
  }

  /** Resolves when leases can be renewed. Rejects if the thread cannot be started or cannot open the store. */
  async ready(): Promise<void> {
    if (this.#opened?.thread.ended === false) return;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    this.#opened = await this.#opening;
    if (this.#closed) this.close();
  }

  /** Has the hold renewed there. If that thread has ended, the event loop renews it. */
  add(hold: Hold): void {
    const opened = this.#opened;
    if (opened?.thread.ended !== false) return;
    hold.attach(new BackgroundLease(hold, opened.thread, opened.store));
  }

  /** The manager has no leases any more. */
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
