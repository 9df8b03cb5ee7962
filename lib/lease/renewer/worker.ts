// The thread that renews leases while the event loop of their holder is blocked. It does what it is told, and ends with
// the thread that has started it.

import { parentPort } from 'node:worker_threads';
import { countsSuspension, elapsed, setClock } from '../../common/elapsed.js';
import { engineClock } from '../../engine/select.js';
import {
  type AddMessage,
  type Command,
  type Id,
  type OpenMessage,
  type RenewMessage,
  type Report,
  SharedDeadline,
} from '../background/protocol.js';
import { messageOf } from '../contract/errors.js';
import type { LeaseStore } from '../contract/lease-store.js';
import type { Backoff } from '../contract/options.js';
import { serializeError } from '../contract/sent-errors.js';
import { Batches } from '../hold/batches.js';
import { EXPIRED, Hold, type HoldContext } from '../hold/hold.js';
import { MemoryLeaseStore } from '../memory/memory-store.js';
import { Schedule } from '../time/schedule.js';

/** Only the manager's thread knows the token, and nothing here shows it. */
const UNKNOWN_TOKEN = 0n;
/** Stands for the leases that use it there. */
const USER = {};

/**
 * A hold in the thread that renews it, for the hold of the manager's thread. Both have one deadline. It reports to that
 * one, which alone frees the key, and which finds out by itself when it expires.
 */
export class RenewedHold extends Hold {
  declare private readonly shared: SharedDeadline;
  declare private readonly id: number;
  declare private readonly report: (report: Report) => void;

  constructor(context: HoldContext, added: AddMessage, report: (report: Report) => void) {
    const { key, owner, since, ttl, every, maxHold } = added;
    const none = { background: false, warning: undefined, minHold: 0, info: undefined, limit: 1, slot: 0 };
    const terms = { ttl, every, maxHold, firstLook: Math.min(every, ttl), ...none };
    super(context, key, owner, UNKNOWN_TOKEN, terms, since);
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

/** A key that nobody holds. Asking for it shows whether the store can be reached. */
const NOBODYS = 'stripelock: is it there?';

const clock = engineClock();
if (clock) setClock(clock);

const port = parentPort!;
const stores = new Map<Id, { readonly store: LeaseStore; readonly context: HoldContext }>();
const holds = new Map<Id, RenewedHold>();

const report = (message: Report): void => port.postMessage(message);

port.on('message', (command: Command) => {
  switch (command.op) {
    case 'open':
      void open(command);
      break;
    case 'close':
      void close(command.store);
      break;
    case 'add':
      holds.set(command.lease, new RenewedHold(stores.get(command.store)!.context, command, report));
      break;
    case 'renew':
      void renew(command);
      break;
    case 'remove':
      void remove(command.lease);
      break;
  }
});

async function open(command: OpenMessage): Promise<void> {
  const { store, backoff } = command;
  const { source } = command;
  try {
    if (command.countsSuspension !== countsSuspension()) {
      throw new Error(
        'the renewing thread has no clock that counts while the machine is suspended, its holder has',
      );
    }
    const made = await reopen(source);
    await made.inspect(NOBODYS);
    stores.set(store, { store: made, context: contextOf(made, backoff) });
    report({ op: 'opened', store, error: undefined });
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown : new Error(messageOf(thrown));
    report({ op: 'opened', store, error: serializeError(error) });
  }
}

async function reopen({ module, name, options }: OpenMessage['source']): Promise<LeaseStore> {
  // The store in memory is in this package, whose name cannot be imported where it is part of a bundle.
  if (module === 'stripelock' && name === 'MemoryLeaseStore')
    return MemoryLeaseStore.from(options as MemoryLeaseStore['handle']);
  const { [name]: make } = (await import(module)) as Record<string, (of: unknown) => unknown>;
  if (typeof make !== 'function') throw new TypeError(`${module} exports no function ${name}`);
  return (await make(options)) as LeaseStore;
}

/** A hold here only renews: its manager frees it. */
function contextOf(store: LeaseStore, backoff: Backoff): HoldContext {
  const batches = new Batches(store, () => undefined);
  return {
    backoff,
    schedule: new Schedule<Hold>(undefined, false, elapsed),
    stableOwners: true,
    renew: ({ key, owner }, ttl, info) => batches.renew(key, owner, ttl, info),
    free: () => Promise.resolve(false),
    lost: () => undefined,
  };
}

async function close(store: Id): Promise<void> {
  const closed = stores.get(store);
  stores.delete(store);
  await closed?.store.close?.().catch(() => undefined);
}

async function renew({ lease, call, ttl, info }: RenewMessage): Promise<void> {
  try {
    const renewed = (await holds.get(lease)?.renew(ttl, info)) === true;
    report({ op: 'answered', lease, call, renewed, error: undefined });
  } catch (error) {
    report({ op: 'answered', lease, call, renewed: false, error: serializeError(error) });
  }
}

async function remove(lease: Id): Promise<void> {
  await holds.get(lease)?.remove();
  holds.delete(lease);
  report({ op: 'removed', lease });
}
