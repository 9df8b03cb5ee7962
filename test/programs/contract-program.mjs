// Uses every public member of the package, leases aside, only in the ways that the contract promises: code written
// against the contract must run unchanged, on every version of Node. Argument: an engine, or none.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { isMainThread, parentPort, threadId, Worker, workerData } from 'node:worker_threads';
import { DeadlockError, Guard, LockError, LockTimeoutError, StripedLock } from 'stripelock';

async function inWorker() {
  const lock = StripedLock.from(workerData.handle);
  const guard = lock.acquireSync('busy', { timeout: Infinity });
  parentPort.postMessage({ held: guard.held, token: guard.token, threadId });
  await once(parentPort, 'message');
  guard.release();
  parentPort.postMessage({ held: guard.held });
}

function construction(engine) {
  const plain = new StripedLock(engine && { engine });
  assert.equal(plain.name, '');
  assert.equal(plain.stripes, 1024);
  assert.equal(plain.timeout, 5000);
  assert.ok(['native', 'javascript'].includes(plain.engine));
  const lock = new StripedLock({ stripes: 64, timeout: 2000, name: 'program', engine, trace: false });
  assert.deepEqual(
    [lock.stripes, lock.timeout, lock.name, lock.engine],
    [64, 2000, 'program', engine ?? plain.engine],
  );
  const again = StripedLock.from(structuredClone(lock.handle));
  assert.deepEqual(
    [again.stripes, again.timeout, again.name, again.engine],
    [64, 2000, 'program', lock.engine],
  );
  return lock;
}

function keys(lock) {
  for (const key of [
    'text',
    '',
    5,
    -5,
    Number.MAX_SAFE_INTEGER,
    new Uint8Array([1, 2]),
    Buffer.from('text'),
  ]) {
    const stripe = lock.stripeOf(key);
    assert.ok(Number.isInteger(stripe) && stripe >= 0 && stripe < 64);
  }
  assert.equal(lock.stripeOf('text'), lock.stripeOf(Buffer.from('text')));
}

async function guards(lock) {
  const list = ['a', 'b', 7, 'a'];
  const stripes = [...new Set(list.map((key) => lock.stripeOf(key)))].sort((x, y) => x - y);
  const { signal } = new AbortController();
  for (const acquire of [
    () => lock.acquireSync(list),
    () => lock.acquire(list, { timeout: 5, mode: 'exclusive', signal }),
    () => lock.tryAcquire(list, { mode: 'exclusive' }),
  ]) {
    const guard = await acquire();
    assert.ok(guard instanceof Guard);
    assert.deepEqual(guard.keys, list);
    assert.deepEqual(guard.stripes, stripes);
    assert.equal(guard.mode, 'exclusive');
    assert.equal(guard.held, true);
    assert.equal(guard.abandoned, false);
    const { token } = guard;
    assert.equal(typeof token, 'bigint');
    guard.release();
    guard.release();
    guard[Symbol.dispose]();
    assert.equal(guard.held, false);
    assert.equal(guard.token, token);
    const next = lock.acquireSync('a');
    assert.ok(next.token > token);
    next.release();
  }
  const unread = lock.acquireSync('a');
  unread.release();
  assert.throws(() => unread.token, { code: 'ERR_LOCK_NOT_HELD' });
  const empty = lock.acquireSync([]);
  assert.deepEqual([empty.keys, empty.stripes, empty.held], [[], [], true]);
  empty.release();

  const readers = [lock.acquireSync('a', { mode: 'shared' }), await lock.acquire('a', { mode: 'shared' })];
  readers.push(lock.tryAcquire('a', { mode: 'shared' }));
  assert.equal(lock.tryAcquire('a'), undefined);
  for (const reader of readers) reader.release();
}

async function functions(lock) {
  assert.equal(await lock.withLock('a', (guard) => guard.keys[0]), 'a');
  assert.equal(
    await lock.withLock(['a', 'b'], { mode: 'shared', timeout: 5 }, async (guard) => guard.mode),
    'shared',
  );
  assert.equal(
    lock.withLockSync('a', (guard) => guard.held),
    true,
  );
  assert.equal(
    lock.withLockSync('a', { mode: 'shared', timeout: 0 }, (guard) => guard.mode),
    'shared',
  );
  await assert.rejects(
    lock.withLock('a', () => Promise.reject(new Error('from inside'))),
    /from inside/,
  );
  assert.throws(() => lock.withLockSync('a', async () => undefined), TypeError);
  assert.equal(lock.stats().held, 0);
}

async function failures(lock) {
  const guard = lock.acquireSync('a');
  assert.throws(
    () => lock.acquireSync('a'),
    (error) => {
      assert.ok(error instanceof DeadlockError && error instanceof LockError && error instanceof Error);
      assert.equal(error.code, 'ERR_LOCK_DEADLOCK');
      assert.deepEqual(error.keys, ['a']);
      assert.deepEqual(error.threads, [threadId]);
      return true;
    },
  );
  await assert.rejects(lock.acquire(['a', 'b'], { timeout: 20 }), (error) => {
    assert.ok(error instanceof LockTimeoutError && error instanceof LockError && error instanceof Error);
    assert.equal(error.code, 'ERR_LOCK_TIMEOUT');
    assert.equal(error.timeout, 20);
    assert.deepEqual(error.keys, ['a', 'b']);
    assert.equal(error.stripe, lock.stripeOf('a'));
    return true;
  });
  const abort = new AbortController();
  const waiting = lock.acquire('a', { signal: abort.signal, timeout: Infinity });
  abort.abort('reason');
  await assert.rejects(waiting, (reason) => reason === 'reason');
  guard.release();

  assert.throws(() => lock.acquireSync(null), { name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' });
  assert.throws(() => lock.acquireSync(0.5), { name: 'RangeError', code: 'ERR_OUT_OF_RANGE' });
  await assert.rejects(lock.acquire('a', { timeout: -1 }), { name: 'RangeError', code: 'ERR_OUT_OF_RANGE' });
  assert.throws(() => StripedLock.from({}), { code: 'ERR_INVALID_ARG_TYPE' });
  assert.throws(() => new StripedLock({ stripes: 0 }), { name: 'RangeError', code: 'ERR_OUT_OF_RANGE' });
}

async function threads(lock) {
  const worker = new Worker(new URL(import.meta.url), { workerData: { handle: lock.handle } });
  const [theirs] = await once(worker, 'message');
  assert.equal(theirs.held, true);
  assert.equal(lock.tryAcquire('busy'), undefined);

  const waiting = lock.acquire('busy', { timeout: Infinity });
  const stats = lock.stats();
  assert.deepEqual(
    [stats.engine, stats.stripes, stats.held, stats.waiting, stats.abandoned],
    [lock.engine, 64, 1, 1, 0],
  );
  for (const counter of ['contended', 'timeouts', 'aborts', 'deadlocks'])
    assert.ok(stats[counter] >= 1, counter);
  const [state] = lock.inspect();
  assert.equal(state.stripe, lock.stripeOf('busy'));
  assert.equal(state.mode, 'exclusive');
  assert.deepEqual(
    state.holders.map((holder) => holder.threadId),
    [theirs.threadId],
  );
  const [waiter] = state.waiters;
  assert.deepEqual([waiter.threadId, waiter.kind, waiter.mode], [threadId, 'async', 'exclusive']);
  assert.ok(waiter.waitingFor >= 0);

  const exit = once(worker, 'exit');
  worker.postMessage('release');
  const guard = await waiting;
  assert.ok(guard.token > theirs.token);
  assert.throws(() => new MessageChannel().port1.postMessage(guard), { name: 'DataCloneError' });
  guard.release();
  await exit;
  assert.deepEqual(lock.inspect(), []);
}

async function main() {
  const lock = construction(process.argv[2]);
  keys(lock);
  await guards(lock);
  await functions(lock);
  await failures(lock);
  await threads(lock);
  const required = createRequire(import.meta.url)('stripelock');
  assert.equal(required.StripedLock, StripedLock);
  console.log('the contract holds');
}

await (isMainThread ? main() : inWorker());
