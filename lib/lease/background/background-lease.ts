import { fromLocal, toLocal } from '../../common/elapsed.js';
import { answerWithin } from '../contract/answer-within.js';
import { storeFailure } from '../contract/errors.js';
import type { Background } from '../hold/background.js';
import type { Hold } from '../hold/hold.js';
import type { LockError } from '../../common/errors.js';
import { SharedDeadline, type Id } from './protocol.js';
import { newId, type Listener, type RenewingThread } from './renewing-thread.js';

/** Milliseconds in which every store answers, or gives up. */
const STUCK = 60_000;

interface Call {
  readonly resolve: (renewed: boolean) => void;
  readonly reject: (error: Error) => void;
}

/** A hold whose lease another thread renews, until the hold ends or that thread does. */
export class BackgroundLease implements Background, Listener {
  readonly renews = true;
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
    const { key, owner, since, expiresAt, terms } = hold;
    const { ttl, every, maxHold } = terms;
    this.#shared.time = fromLocal(expiresAt);
    thread.add(this.#id, this);
    thread.send({
      op: 'add',
      lease: this.#id,
      store,
      key,
      owner,
      ttl,
      every,
      maxHold,
      since: fromLocal(since),
      deadline: this.#shared.memory,
    });
  }

  get deadline(): number {
    return toLocal(this.#shared.time);
  }

  /** The deadline is up to date already. */
  recover(): boolean {
    return false;
  }

  renew(ttl: number): Promise<boolean> {
    if (!this.#hold.look()) return Promise.resolve(false);
    const call = newId();
    const answered = new Promise<boolean>((resolve, reject) => {
      this.#calls.set(call, { resolve, reject });
      this.#thread.send({ op: 'renew', lease: this.#id, call, ttl });
    });
    return this.#thread.during(answered);
  }

  end(): Promise<void> {
    return (this.#ending ??= this.#remove());
  }

  renewed(ttl: number): void {
    const hold = this.#hold;
    if (this.#isIdle()) return;
    hold.renewals.succeeded(ttl);
    hold.heard();
  }

  failed(error: LockError): void {
    if (this.#isIdle()) return;
    this.#hold.renewals.failed(error);
    this.#hold.heard();
  }

  lost(reason: string): void {
    if (!this.#isIdle()) this.#hold.lose(reason);
  }

  answered(id: Id, renewed: boolean, error: Error | undefined): void {
    const call = this.#calls.get(id)!;
    this.#calls.delete(id);
    if (error) call.reject(error);
    else call.resolve(renewed);
    if (!this.#isIdle()) this.#hold.heard();
  }

  removed(): void {
    this.#removed?.();
    for (const { resolve } of this.#calls.values()) resolve(false);
    this.#calls.clear();
  }

  ended(error: Error): boolean {
    const failure = storeFailure('renew', this.#hold.key, error);
    const idle = this.#isIdle();
    for (const { reject } of this.#calls.values()) reject(failure);
    this.#calls.clear();
    this.removed();
    if (idle) return false;
    this.#hold.renewals.failed(failure);
    void this.#hold.renewals.takeOver();
    return true;
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
