// Run with --expose-gc. Prints the events of leases that are no longer referenced. Argument: loop or thread, whichever renews
// them.
import { setTimeout as delay } from 'node:timers/promises';
import { LeaseManager, MemoryLeaseStore } from 'stripelock';
import { reopenable } from '../support/reopenable.mjs';

// Long enough for a busy machine to collect garbage between two renewals.
const TTL = 1500;
const warnings = [];
process.on('warning', ({ code, message }) => warnings.push({ code, message }));

/** Collects until it has happened; a program that waits for ever is killed. */
async function collectUntil(condition) {
  while (!condition()) {
    globalThis.gc();
    await delay(50);
  }
}

const by = process.argv[2];
const memory = new MemoryLeaseStore();
const store = by === 'thread' ? reopenable(memory) : memory;
const options = { store, ttl: TTL, ...(by !== 'loop' && { renew: { background: true }, maxHold: 600_000 }) };
const manager = new LeaseManager(options);
const sharing = new LeaseManager({ ...options, reentrant: true });
const kept = await manager.acquire('kept');
let released = await manager.acquire('released');
await released.release();
released = undefined;
const shared = await sharing.acquire('shared');
// In separate functions, so that no register keeps the acquired leases.
await (async () => void (await sharing.acquire('shared')))();
await (async () => void (await manager.acquire('forgotten')))();
// Its signal is in use, but no code can release the lease or check it.
const signal = await (async () => (await manager.acquire('signal')).signal)();
const aborted = new Promise((resolve) => signal.addEventListener('abort', resolve));

let free = 0;
const other = new LeaseManager({ store });
for (const key of ['forgotten', 'signal']) {
  void other.acquire(key, { timeout: 20_000 }).then((lease) => ((free += 1), lease.release()));
}
await collectUntil(() => free === 2);
await aborted;
// Long enough that leases in use would end if they were not renewed.
await delay(2 * TTL);
console.log(
  JSON.stringify({
    kept: kept.held,
    shared: shared.held,
    reason: signal.reason.code,
    warnings: warnings.map(({ code }) => code),
    keys: warnings.map(({ message }) => /"(.*?)"/.exec(message)?.[1]).sort(),
  }),
);
await manager.close();
await sharing.close();
