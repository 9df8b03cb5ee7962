// The code of the thread that renews leases while the event loop of their holder is blocked. This thread
// executes the commands of the thread that started it, and ends with that thread.

import { parentPort } from 'node:worker_threads';
import { countsSuspension, elapsed, setClock } from '../common/elapsed.js';
import { engineClock } from '../engine/select.js';
import { type AddCommand, type Command, type Id, type Report, SharedDeadline } from './renewing-protocol.js';
import { messageOf } from './contract/errors.js';
import type { LeaseStore, LeaseStoreSource } from './contract/lease-store.js';
import { serializeError } from './contract/sent-errors.js';
import { Heartbeat } from './heartbeat.js';
import { EXPIRED, Hold } from './hold.js';
import { MemoryLeaseStore } from './memory-store.js';
import { Schedule } from './schedule.js';
import { StoreRequests } from './store-requests.js';

/**
 * A second hold of a grant. This thread renews the grant on behalf of the hold in the manager's thread. Both
 * holds share one deadline. The manager's hold receives the reports, frees the key, and checks by itself
 * whether the deadline has passed.
 */
class RenewedHold extends Hold {
  readonly #id: Id;

  constructor(heartbeat: Heartbeat, command: AddCommand) {
    super(heartbeat, command, new SharedDeadline(command.deadline));
    this.#id = command.lease;
    this.join();
    this.plan();
  }

  override takeBackExpired(): Promise<boolean> {
    return Promise.resolve(false);
  }

  override announceRenewal(ttl: number): void {
    report({ op: 'renewed', lease: this.#id, ttl });
  }

  override announceFailure(_operation: 'renew' | 'release', error: Error): void {
    report({ op: 'failed', lease: this.#id, error: serializeError(error) });
  }

  /** Stops the renewals. Resolves when the store has answered all renewals that were sent. */
  async remove(): Promise<void> {
    this.wasReleased();
    await this.heartbeat.stop(this);
  }

  protected override wasLost(reason: string): void {
    if (reason !== EXPIRED) report({ op: 'lost', lease: this.#id, reason });
  }
}

/** A key that is never acquired. A request to inspect it shows whether the store can be reached. */
const UNUSED = 'stripelock: is it there?';

const clock = engineClock();
if (clock) setClock(clock);

const port = parentPort!;
const stores = new Map<Id, { readonly store: LeaseStore; readonly heartbeat: Heartbeat }>();
const held = new Map<Id, RenewedHold>();

const report = (message: Report): void => port.postMessage(message);

port.on('message', (command: Command) => {
  const executed = execute(command);
  if (!('call' in command)) return;
  const { call } = command;
  executed.then(
    (result) => report({ op: 'answered', call, result, error: undefined }),
    (thrown: unknown) => {
      const error = thrown instanceof Error ? thrown : new Error(messageOf(thrown));
      report({ op: 'answered', call, result: false, error: serializeError(error) });
    },
  );
});

/**
 * Executes a command. For a renewal, the result is true if the lease was extended. For all other commands,
 * the result is true.
 */
async function execute(command: Command): Promise<boolean> {
  switch (command.op) {
    case 'open':
      await open(command);
      break;
    case 'close':
      await close(command.store);
      break;
    case 'add':
      held.set(command.lease, new RenewedHold(stores.get(command.store)!.heartbeat, command));
      break;
    case 'renew': {
      const key = held.get(command.lease);
      return key !== undefined && key.heartbeat.renew(key, command.ttl, command.info);
    }
    case 'remove':
      await held.get(command.lease)?.remove();
      held.delete(command.lease);
  }
  return true;
}

async function open({ store, backoff, source, ...holder }: Command & { readonly op: 'open' }): Promise<void> {
  if (holder.countsSuspension !== countsSuspension()) {
    throw new Error(
      'the renewing thread has no clock that counts while the machine is suspended, its holder has',
    );
  }
  const made = await reopen(source);
  await made.inspect(UNUSED);
  const schedule = new Schedule<Hold>(undefined, false, elapsed);
  const heartbeat = new Heartbeat(new StoreRequests(made, () => undefined), schedule, backoff);
  stores.set(store, { store: made, heartbeat });
}

async function reopen({ module, name, options }: LeaseStoreSource & { module: string }): Promise<LeaseStore> {
  // The memory store is part of this package. If the package is in a bundle, the package cannot be imported
  // by its name.
  if (module === 'stripelock' && name === 'MemoryLeaseStore')
    return MemoryLeaseStore.from(options as MemoryLeaseStore['handle']);
  const { [name]: make } = (await import(module)) as Record<string, (of: unknown) => unknown>;
  if (typeof make !== 'function') throw new TypeError(`${module} exports no function ${name}`);
  return (await make(options)) as LeaseStore;
}

async function close(store: Id): Promise<void> {
  const closed = stores.get(store);
  stores.delete(store);
  await closed?.store.close?.().catch(() => undefined);
}
