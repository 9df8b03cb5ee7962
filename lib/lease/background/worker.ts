// The thread that renews leases while the event loop of their holder is blocked. It does what it is told, and ends with
// the thread that has started it.

import { parentPort } from 'node:worker_threads';
import { countsSuspension, elapsed, setClock } from '../../common/elapsed.js';
import { engineClock } from '../../engine/select.js';
import type { LeaseStore } from '../contract/lease-store.js';
import { Schedule } from '../time/schedule.js';
import {
  renewalToSent,
  toSent,
  type Id,
  type OpenMessage,
  type RenewMessage,
  type Report,
  type Request,
} from './protocol.js';
import { RenewedLease } from './renewed-lease.js';

/** A key that nobody holds. Asking for it shows whether the store can be reached. */
const NOBODYS = 'stripelock: is it there?';

const clock = engineClock();
if (clock) setClock(clock);

const port = parentPort!;
const schedule = new Schedule<RenewedLease>(undefined, false, elapsed);
const stores = new Map<Id, LeaseStore>();
const leases = new Map<Id, RenewedLease>();

const report = (message: Report): void => port.postMessage(message);

port.on('message', (request: Request) => {
  switch (request.op) {
    case 'open':
      void open(request);
      break;
    case 'close':
      void close(request.store);
      break;
    case 'add': {
      const store = stores.get(request.store)!;
      leases.set(request.lease, new RenewedLease(request, { store, schedule, report }));
      break;
    }
    case 'renew':
      void renew(request);
      break;
    case 'remove':
      void remove(request.lease);
      break;
  }
});

async function open({ store, module, name, options, countsSuspension: needed }: OpenMessage): Promise<void> {
  try {
    if (needed !== countsSuspension()) {
      throw new Error(
        'the renewing thread has no clock that counts while the machine is suspended, its holder has',
      );
    }
    const { [name]: make } = (await import(module)) as Record<string, (of: unknown) => unknown>;
    if (typeof make !== 'function') throw new TypeError(`${module} exports no function ${name}`);
    const made = (await make(options)) as LeaseStore;
    await made.inspect(NOBODYS);
    stores.set(store, made);
    report({ op: 'opened', store, error: undefined });
  } catch (error) {
    report({ op: 'opened', store, error: toSent(error) });
  }
}

async function close(store: Id): Promise<void> {
  const closed = stores.get(store);
  stores.delete(store);
  await closed?.close?.().catch(() => undefined);
}

async function renew({ lease, call, ttl }: RenewMessage): Promise<void> {
  try {
    const renewed = (await leases.get(lease)?.renew(ttl)) === true;
    report({ op: 'answered', lease, call, renewed, error: undefined });
  } catch (error) {
    report({ op: 'answered', lease, call, renewed: false, error: renewalToSent(error) });
  }
}

async function remove(lease: Id): Promise<void> {
  await leases.get(lease)?.remove();
  leases.delete(lease);
  report({ op: 'removed', lease });
}
