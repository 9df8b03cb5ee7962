// Acquisitions of all outcomes, with subscribers that throw. Node reports their errors as uncaught. Argument: the
// engine. Prints how many were reported, and how many stripes are held and waited for in the end.
import diagnostics_channel from 'node:diagnostics_channel';
import { setImmediate as turn } from 'node:timers/promises';
import { StripedLock } from 'stripelock';

let reported = 0;
process.on('uncaughtException', (error) => {
  if (error.message !== 'a subscriber failed') throw error;
  reported++;
});
const fail = () => {
  throw new Error('a subscriber failed');
};
for (const name of ['wait', 'timeout', 'deadlock', 'abandoned'])
  diagnostics_channel.subscribe(`stripelock:${name}`, fail);

const lock = new StripedLock({ engine: process.argv[2] });
const settled = (promise) => promise.then((guard) => guard.release(), Boolean);
const holder = lock.acquireSync('key');
// wait and timeout, twice
await Promise.all([1, 2].map(() => settled(lock.acquire('key', { timeout: 5 }))));
// wait and deadlock
try {
  lock.acquireSync('key');
} catch {
  // Refused.
}
// timeout: a single attempt is not a wait
await settled(lock.acquire('key', { timeout: 0 }));
const controller = new AbortController();
const aborted = settled(lock.acquire('key', { signal: controller.signal }));
const granted = [1, 2].map(() => settled(lock.acquire('key')));
// wait
controller.abort();
await aborted;
holder.release();
// wait, twice
await Promise.all(granted);
await turn();
const { held, waiting } = lock.stats();
console.log(`reported ${reported}, held ${held}, waiting ${waiting}`);
