// Acquisitions where timers are not Node's. Arguments: the engine, and the timers: `numbers`, as in browsers and in
// Electron's renderer; `faked` while one acquisition waits; `faked-before` the package is loaded, too. Prints the
// outcomes of the acquisitions.
import { mock } from 'node:test';

const [, , engine, timers] = process.argv;
/** Milliseconds: far longer than anything here takes. */
const PATIENCE = 10_000;
/** Milliseconds of the first timeout, which does not pass. The second ends later, so the timer of the first could delay it. */
const FIRST = 1000;
const { setTimeout: real, clearTimeout: clear } = globalThis;

if (timers === 'numbers') {
  let last = 0;
  const byNumber = new Map();
  globalThis.setTimeout = (...args) => {
    byNumber.set(++last, real(...args));
    return last;
  };
  globalThis.clearTimeout = (number) => clear(byNumber.get(number));
}
if (timers === 'faked-before') mock.timers.enable({ apis: ['setTimeout'] });
const { StripedLock } = await import('stripelock');
const lock = new StripedLock({ engine });
if (timers === 'faked') mock.timers.enable({ apis: ['setTimeout'] });

const outcomeOf = (promise) =>
  promise.then(
    (guard) => {
      guard.release();
      return 'granted';
    },
    ({ code }) => (code === 'ERR_LOCK_TIMEOUT' ? 'timed out' : code),
  );

const holder = lock.acquireSync('key');
const waiting = outcomeOf(lock.acquire('key', { timeout: FIRST }));
// Its timer is set before the others are made.
await new Promise((resolve) => setImmediate(resolve));
holder.release();
const outcomes = [await waiting];
mock.timers.reset();
const other = lock.acquireSync('key');
const late = real(() => {
  console.log(outcomes.join(', '), 'and then nothing');
  process.exit(1);
}, PATIENCE);
outcomes.push(await outcomeOf(lock.acquire('key', { timeout: FIRST + 100 })));
outcomes.push(await outcomeOf(lock.acquire('key', { timeout: 5 })));
clear(late);
other.release();
console.log(outcomes.join(', '));
