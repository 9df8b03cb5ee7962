// The thread that renews leases while their holder's event loop is blocked. It executes the commands of the thread that
// started it, and ends with that thread.

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
} from './protocol.js';
import { messageOf } from '../contract/errors.js';
import type { LeaseStore } from '../contract/lease-store.js';
import type { Backoff } from '../contract/options.js';
import { serializeError } from '../contract/sent-errors.js';
import { Heartbeat } from '../hold/heartbeat.js';
import { EXPIRED, HeldKey, type RenewalTerms } from '../hold/hold.js';
import { MemoryLeaseStore } from '../memory/memory-store.js';
import { Schedule } from '../hold/schedule.js';
import { StoreRequests } from '../hold/store-requests.js';

/**
 * A key that this thread renews for a hold of the manager's thread. Both share one deadline. The hold receives the reports, frees
 * the key, and checks by itself whether it has expired.
 */
class RenewedKey extends HeldKey {
  readonly key: string;
  readonly terms: RenewalTerms;
  readonly #id: Id;
  readonly #deadline: SharedDeadline;

  constructor(heartbeat: Heartbeat, { lease, key, owner, since, terms, deadline }: AddMessage) {
    super(heartbeat, owner, terms, since);
    this.key = key;
    this.terms = terms;
    this.#id = lease;
    this.#deadline = new SharedDeadline(deadline);
    this.plan();
  }

  /** The holder's thread sends the key as the store has it. */
  get name(): string {
    return this.key;
  }

  get expiresAt(): number {
    return this.#deadline.time;
  }

  /** A lease that has ended must not appear to be held again. */
  set expiresAt(time: number) {
    if (!this.ended) this.#deadline.time = time;
  }

  freeExpired(): Promise<boolean> {
    return Promise.resolve(false);
  }

  announceRenewal(ttl: number): void {
    report({ op: 'renewed', lease: this.#id, ttl });
  }

  announceFailure(_operation: 'renew' | 'release', error: Error): void {
    report({ op: 'failed', lease: this.#id, error: serializeError(error) });
  }

  /** Ends the renewals. Resolves once the store has answered those that were sent. */
  async remove(): Promise<void> {
    this.wasReleased();
    await this.heartbeat.stop(this);
  }

  protected wasLost(reason: string): void {
    if (reason !== EXPIRED) report({ op: 'lost', lease: this.#id, reason });
  }

  /** The leases that use it are in the other thread. */
  protected beats(): void {
    return;
  }
}

/** A key that is never acquired. Inspecting it shows whether the store can be reached. */
const NOBODYS = 'stripelock: is it there?';

const clock = engineClock();
if (clock) setClock(clock);

const port = parentPort!;
const stores = new Map<Id, { readonly store: LeaseStore; readonly heartbeat: Heartbeat }>();
const holds = new Map<Id, RenewedKey>();

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
      holds.set(command.lease, new RenewedKey(stores.get(command.store)!.heartbeat, command));
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
  const { store, backoff, source } = command;
  try {
    if (command.countsSuspension !== countsSuspension()) {
      throw new Error(
        'the renewing thread has no clock that counts while the machine is suspended, its holder has',
      );
    }
    const made = await reopen(source);
    await made.inspect(NOBODYS);
    stores.set(store, { store: made, heartbeat: heartbeatOf(made, backoff) });
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

function heartbeatOf(store: LeaseStore, backoff: Backoff): Heartbeat {
  const schedule = new Schedule<HeldKey>(undefined, false, elapsed);
  return new Heartbeat(new StoreRequests(store, () => undefined), schedule, backoff);
}

async function close(store: Id): Promise<void> {
  const closed = stores.get(store);
  stores.delete(store);
  await closed?.store.close?.().catch(() => undefined);
}

async function renew({ lease, call, ttl, info }: RenewMessage): Promise<void> {
  try {
    const held = holds.get(lease);
    const renewed = held !== undefined && (await held.heartbeat.renew(held, ttl, info));
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
