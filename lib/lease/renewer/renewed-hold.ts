import { serializeError } from '../contract/sent-errors.js';
import type { AddMessage, Report } from '../background/protocol.js';
import { SharedDeadline } from '../background/protocol.js';
import { EXPIRED, Hold, type HoldContext } from '../hold/hold.js';

/** Only the manager's thread knows the token, and nothing here shows it. */
const UNKNOWN_TOKEN = 0n;
/** In place of the leases that use it there. */
const USER = {};

/**
 * A hold in the thread that renews it, for the hold of the manager's thread. Both have one deadline. It reports to that
 * one, which alone frees the key, and which finds out by itself when its time is over.
 */
export class RenewedHold extends Hold {
  declare private readonly shared: SharedDeadline;
  declare private readonly id: number;
  declare private readonly report: (report: Report) => void;

  constructor(context: HoldContext, added: AddMessage, report: (report: Report) => void) {
    const { key, owner, since, ttl, every, maxHold } = added;
    const none = { background: false, warning: undefined, minHold: 0, info: undefined };
    const terms = { ttl, every, maxHold, firstLook: Math.min(every, ttl), ...none };
    super(context, key, owner, UNKNOWN_TOKEN, 0, terms, since);
    this.shared = new SharedDeadline(added.deadline);
    this.id = added.lease;
    this.report = report;
    this.join(USER);
    this.plan(this.deadline);
  }

  override get expiresAt(): number {
    return this.shared.time;
  }

  /** Nobody may be told that a lease which was over is held again. */
  override set expiresAt(time: number) {
    if (!this.ended) this.shared.time = time;
  }

  override lose(reason: string): void {
    if (this.ended) return;
    super.lose(reason);
    if (reason !== EXPIRED) this.report({ op: 'lost', lease: this.id, reason });
  }

  /** Resolves when the store has answered everything. */
  async remove(): Promise<void> {
    this.state = 'released';
    this.context.schedule.clear(this);
    await this.renewals.settled();
  }

  override announceRenewal(ttl: number): void {
    this.report({ op: 'renewed', lease: this.id, ttl });
  }

  override announceFailure(_operation: 'renew' | 'release', error: Error): void {
    this.report({ op: 'failed', lease: this.id, error: serializeError(error) });
  }

  /** They are in the other thread. */
  protected override watchLeases(): void {
    return;
  }
}
