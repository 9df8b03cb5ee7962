// Where a traced ProcessLock says that it was acquired: on the line of this file that calls it. Argument: the path of the file.
import assert from 'node:assert/strict';
import { ProcessLock } from 'stripelock/process';

/** The line that calls this. */
const line = () => /:(\d+):\d+\)?$/.exec(new Error().stack.split('\n')[2])[1];

const lock = new ProcessLock({ path: process.argv[2], trace: true });
const expectAt = (expected, how) => {
  const places = lock.inspect().flatMap(({ holders }) => holders.map(({ acquiredAt }) => acquiredAt));
  assert.match(places.join(), new RegExp(`^at .*traced-process-places\\.mjs:${expected}:\\d+\\)?$`), how);
};

const [sync, syncLine] = [lock.acquireSync('a'), line()];
expectAt(syncLine, 'acquireSync');
sync.release();
const [attempt, attemptLine] = [lock.tryAcquire(['a']), line()];
expectAt(attemptLine, 'tryAcquire');
const [waiting, waitingLine] = [lock.acquire('a'), line()];
attempt.release();
const waited = await waiting;
expectAt(waitingLine, 'acquire that waits');
waited.release();
const [awaited, awaitedLine] = [await lock.acquire('a', { timeout: 5 }), line()];
expectAt(awaitedLine, 'acquire');
awaited.release();
const syncWithLine = Number(line()) + 1;
lock.withLockSync(() => expectAt(syncWithLine, 'withLockSync'));
const withLine = Number(line()) + 1;
await lock.withLock('a', { mode: 'shared' }, async () => expectAt(withLine, 'withLock'));
assert.deepEqual(lock.inspect(), []);
