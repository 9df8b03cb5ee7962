// The thread that renews leases while the event loop of their holder is blocked. It does what it is told, and ends with
// the thread that has started it.

import { parentPort } from 'node:worker_threads';
import { countsSuspension, elapsed, setClock } from '../../common/elapsed.js';
import { engineClock } from '../../engine/select.js';
import type { Id, OpenMessage, RenewMessage, Report, Command } from '../background/protocol.js';
import { messageOf } from '../contract/errors.js';
import type { LeaseStore } from '../contract/lease-store.js';
import type { Backoff } from '../contract/options.js';
import { serializeError } from '../contract/sent-errors.js';
import { StoreAdapter } from '../grants/store-adapter.js';
import type { Hold, HoldContext } from '../hold/hold.js';
import { Schedule } from '../time/schedule.js';
import { RenewedHold } from './renewed-hold.js';

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
  const { store, module, name, options, backoff } = command;
  try {
    if (command.countsSuspension !== countsSuspension()) {
      throw new Error(
        'the renewing thread has no clock that counts while the machine is suspended, its holder has',
      );
    }
    const { [name]: make } = (await import(module)) as Record<string, (of: unknown) => unknown>;
    if (typeof make !== 'function') throw new TypeError(`${module} exports no function ${name}`);
    const made = (await make(options)) as LeaseStore;
    await made.inspect(NOBODYS);
    stores.set(store, { store: made, context: contextOf(made, backoff) });
    report({ op: 'opened', store, error: undefined });
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown : new Error(messageOf(thrown));
    report({ op: 'opened', store, error: serializeError(error) });
  }
}

/** A hold here only renews: its manager frees it. What is due together is renewed in one request, if the store can. */
function contextOf(store: LeaseStore, backoff: Backoff): HoldContext {
  const adapter = new StoreAdapter(store);
  const together = <T>(body: () => T): T => adapter.together(body);
  return {
    backoff,
    together,
    schedule: new Schedule<Hold>(undefined, false, elapsed, together),
    stableOwners: true,
    looksBeforeRelease: true,
    ttlInStore: (ttl) => ttl,
    renew: ({ key, owner }, ttl) => adapter.renew(key, owner, ttl),
    tokenOf: BigInt,
    free: () => Promise.resolve(false),
    lost: () => undefined,
  };
}

async function close(store: Id): Promise<void> {
  const closed = stores.get(store);
  stores.delete(store);
  await closed?.store.close?.().catch(() => undefined);
}

async function renew({ lease, call, ttl }: RenewMessage): Promise<void> {
  try {
    const renewed = (await holds.get(lease)?.renew(ttl)) === true;
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
