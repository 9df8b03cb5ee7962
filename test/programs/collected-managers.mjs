// @ts-check
// Managers of leases that are garbage-collected without being closed. Prints how many are open before and afterwards.
import { LeaseManager } from 'stripelock';
import { collect } from 'stripelock/metrics';

const { gc } = /** @type {{ gc: () => void }} */ (/** @type {unknown} */ (globalThis));
const turn = () => new Promise((resolve) => setImmediate(resolve));
const open = () => collect().find(({ name }) => name === 'collected')?.locks;

async function useTwo() {
  const managers = [new LeaseManager({ name: 'collected' }), new LeaseManager({ name: 'collected' })];
  for (const leases of managers) await leases.withLease('key', () => undefined);
  await managers[0]?.close();
  await managers[0]?.close();
  return managers.length > 0 ? open() : undefined;
}

const before = await useTwo();
while (open() !== 0) {
  await turn();
  gc();
}
console.log(JSON.stringify([before, open()]));
