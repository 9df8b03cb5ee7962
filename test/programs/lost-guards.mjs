// Argument: engine. Loses guards of a traced lock, collects garbage, and prints the result.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { StripedLock } from 'stripelock';

const lock = new StripedLock({ engine: process.argv[2], trace: true, name: 'lost', stripes: 1024 });
const warnings = [];
process.removeAllListeners('warning');
process.on('warning', ({ name, code, message }) => warnings.push({ name, code, message }));

function loseSync() {
  lock.acquireSync('sync');
}
async function loseAsync() {
  await lock.acquire('async');
}
function loseAttempt() {
  lock.tryAcquire('attempt');
}
function loseShared() {
  lock.acquireSync('shared', { mode: 'shared' });
}
function loseSeveral() {
  lock.acquireSync(['one', 'two', 'three']);
}
function release() {
  lock.acquireSync('released').release();
}

const kept = lock.acquireSync('kept');
loseSync();
await loseAsync();
loseAttempt();
loseShared();
loseSeveral();
release();
// Waits for a stripe that only the garbage collector can release.
const waiting = lock.acquire('two', { timeout: Infinity });
let waited = false;
void waiting.then((guard) => {
  waited = true;
  guard.release();
});
for (let i = 0; i < 1000 && (warnings.length < 5 || !waited); i++) {
  globalThis.gc();
  await nextTurn();
}
console.log(JSON.stringify({ warnings, held: lock.stats().held, waited, kept: kept.held }));
