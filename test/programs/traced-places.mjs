// Where a traced lock says that it was acquired: on the line of this file that calls it, whatever is between.
// Argument: the engine.
import assert from 'node:assert/strict';
import { StripedLock } from 'stripelock';

/** The line that calls this. */
const line = () => /:(\d+):\d+\)?$/.exec(new Error().stack.split('\n')[2])[1];

const overridden = Number(line()) + 3;
class Logged extends StripedLock {
  acquireSync(keys, options) {
    return super.acquireSync(keys, options); // an override is the program's
  }
}

const options = { engine: process.argv[2], trace: true };
const lock = new StripedLock(options);
const places = (key) =>
  lock
    .inspect()
    .filter(({ stripe }) => stripe === lock.stripeOf(key))
    .flatMap(({ holders }) => holders.map(({ acquiredAt }) => acquiredAt));
const expectAt = (key, expected, how) => {
  assert.match(places(key).join(), new RegExp(`^at .*traced-places\\.mjs:${expected}:\\d+\\)?$`), how);
};

const [sync, syncLine] = [lock.acquireSync('a'), line()];
expectAt('a', syncLine, 'acquireSync');
sync.release();
const [attempt, attemptLine] = [lock.tryAcquire(['a']), line()];
expectAt('a', attemptLine, 'tryAcquire');
attempt.release();
const [awaited, awaitedLine] = [await lock.acquire('a', { timeout: 5 }), line()];
expectAt('a', awaitedLine, 'acquire');
awaited.release();
const syncWithLine = Number(line()) + 1;
lock.withLockSync('a', () => {
  expectAt('a', syncWithLine, 'withLockSync');
  const innerLine = Number(line()) + 1;
  lock.withLockSync('b', () => expectAt('b', innerLine, 'withLockSync within withLockSync'));
  const [inner, heldLine] = [lock.acquireSync('b'), line()];
  expectAt('b', heldLine, 'acquireSync within withLockSync');
  inner.release();
  const attemptWithin = lock.tryAcquire('b');
  expectAt('b', Number(line()) - 1, 'tryAcquire within withLockSync');
  attemptWithin.release();
});
const withLine = Number(line()) + 1;
await lock.withLock('a', async () => {
  expectAt('a', withLine, 'withLock');
  const innerLine = Number(line()) + 1;
  await lock.withLock(['b', 'c'], () => expectAt('b', innerLine, 'withLock within withLock'));
});

const recursiveLine = Number(line()) + 2;
const recurse = (depth) =>
  lock.withLockSync(depth, () =>
    depth === 0 ? expectAt(0, recursiveLine, 'a recursion') : recurse(depth - 1),
  );
recurse(6);

// Spies of test runners: a call comes through a function of the program.
const { acquireSync } = StripedLock.prototype;
StripedLock.prototype.acquireSync = function (...args) {
  return acquireSync.apply(this, args);
};
const spyLine = Number(line()) - 2;
const spied = lock.acquireSync('a');
expectAt('a', spyLine, 'a replaced method');
spied.release();
StripedLock.prototype.acquireSync = acquireSync;

const logged = new Logged(options);
const guard = logged.acquireSync('a');
assert.match(logged.inspect()[0].holders[0].acquiredAt, new RegExp(`traced-places\\.mjs:${overridden}:`));
guard.release();

// Frozen, it cannot be replaced.
if (!Object.isFrozen(Error)) {
  const handler = Error.prepareStackTrace;
  Error.prepareStackTrace = () => [{ not: 'a string' }];
  const odd = lock.acquireSync('a');
  Error.prepareStackTrace = handler;
  assert.deepEqual(places('a'), ['at an unknown place']);
  odd.release();
}
