import { elapsed } from '../../common/elapsed.js';
import type { LeaseStore } from '../contract/lease-store.js';
import type { LeaseTerms } from '../contract/options.js';
import { Renewal, type Renewable } from '../hold/renewal.js';
import type { Due, Schedule } from '../time/schedule.js';
import { renewalToSent, SharedDeadline, type AddMessage, type Report } from './protocol.js';

/** What leases share in the renewing thread. */
export interface Renewing {
  readonly store: LeaseStore;
  readonly schedule: Schedule<RenewedLease>;
  report(report: Report): void;
}

/**
 * A lease in the thread that renews it. The rules are those of a hold: it is renewed by {@link Renewal} until its
 * deadline, or until it has been held for its limit. It is over when the holder says so, when the store says so, or when
 * its deadline has passed; then it is never renewed again.
 */
export class RenewedLease implements Due, Renewable {
  deadline: number;
  place = -1;
  readonly key: string;
  readonly owner: string;
  /** Only the holder knows it, and nothing here shows it. */
  readonly token = 0n;
  readonly terms: LeaseTerms;
  /** The holder has ended it. */
  released = false;
  lostReason: string | undefined;
  readonly #in: Renewing;
  readonly #id: number;
  readonly #since: number;
  readonly #shared: SharedDeadline;
  readonly #renewal: Renewal;
  /** Renewals that have not settled. */
  readonly #underWay = new Set<Promise<unknown>>();

  constructor(added: AddMessage, renewing: Renewing) {
    const { ttl, every, maxHold, since } = added;
    this.#in = renewing;
    this.#id = added.lease;
    this.key = added.key;
    this.owner = added.owner;
    this.#since = since;
    this.#shared = new SharedDeadline(added.deadline);
    const firstLook = Math.min(every, ttl);
    const none = { background: false, warning: undefined, minHold: 0, info: undefined };
    this.terms = { ttl, every, maxHold, firstLook, ...none };
    this.#renewal = new Renewal(this, {
      renew: (lease, milliseconds) => renewing.store.renew(lease.key, lease.owner, milliseconds),
      backoff: added.backoff,
      schedule: renewing.schedule,
      ttlInStore: (milliseconds) => milliseconds,
    });
    this.deadline = since + firstLook;
    this.plan(this.deadline);
  }

  get expiresAt(): number {
    return this.#shared.time;
  }

  set expiresAt(time: number) {
    // Nobody may be told that a lease which was over is held again.
    if (!this.ended) this.#shared.time = time;
  }

  get ended(): boolean {
    return this.released || this.lostReason !== undefined;
  }

  look(): boolean {
    if (this.ended) return false;
    if (elapsed() < this.expiresAt) return true;
    this.expire();
    return false;
  }

  lose(reason: string): void {
    if (this.ended) return;
    this.lostReason = reason;
    this.#in.schedule.clear(this);
    this.#in.report({ op: 'lost', lease: this.#id, reason });
  }

  /** The holder finds this out by itself. */
  expire(): void {
    if (this.ended) return;
    this.lostReason = 'its time is over';
    this.#in.schedule.clear(this);
  }

  plan(renewal: number): void {
    const renews = renewal < this.expiresAt && renewal - this.#since < this.terms.maxHold;
    this.#in.schedule.set(this, renews ? renewal : this.expiresAt);
  }

  /** Called by the schedule. */
  run(now: number): void {
    if (!this.look()) return;
    if (now - this.#since >= this.terms.maxHold) this.plan(Infinity);
    else this.renew(this.terms.ttl).catch(() => undefined);
  }

  renew(ttl: number): Promise<boolean> {
    const renewed = this.#renewal.renew(ttl);
    const settled = renewed
      .catch(() => undefined)
      .finally(() => {
        this.#underWay.delete(settled);
      });
    this.#underWay.add(settled);
    return renewed;
  }

  /** Ends it. Resolves when the store has answered everything. */
  async remove(): Promise<void> {
    this.released = true;
    this.#in.schedule.clear(this);
    while (this.#underWay.size > 0) await Promise.all(this.#underWay);
  }

  /** It ends by itself in the store. The holder, who has lost it, may have taken the key again. */
  freeExpired(): Promise<boolean> {
    return Promise.resolve(false);
  }

  announceRenewal(ttl: number): void {
    this.#in.report({ op: 'renewed', lease: this.#id, ttl });
  }

  announceFailure(_operation: 'renew', error: Error): void {
    this.#in.report({ op: 'failed', lease: this.#id, error: renewalToSent(error) });
  }
}
