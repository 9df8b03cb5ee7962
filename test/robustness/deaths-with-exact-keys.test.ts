import { once } from 'node:events';
import { expect, it } from 'vitest';
import { KeyedLock, type KeyedLockHandle, type StripedLock } from 'stripelock';
import { startThread } from '../support/threads.js';
import { Victim, type VictimPlan } from '../support/victim.js';

/** A thread dies that has done so with a lock. */
async function die(handle: KeyedLockHandle, plan: VictimPlan): Promise<void> {
  const victim = await Victim.start({ handle } as unknown as StripedLock, plan);
  await victim.end('terminate');
}

it.each([1, 2, 3, 4, 100])('a death is also reported in a lock of %i keys', async (capacity) => {
  const lock = new KeyedLock({ engine: 'native', capacity });
  await die(lock.handle, { holds: [{ keys: 'key' }] });
  expect(lock.size).toBe(1);
  const guard = lock.acquireSync('key');
  expect(guard.abandoned).toBe(true);
  guard.release();
  expect(lock.acquireSync('key').abandoned).toBe(false);
});

it('a death is reported if no other thread had the lock open, for exclusive holds only', async () => {
  const maker = startThread('make-lock.mjs', { keyed: true, options: { engine: 'native', capacity: 50 } });
  // Both may come at once.
  const exited = once(maker, 'exit');
  const [{ handle }] = (await once(maker, 'message')) as [{ handle: KeyedLockHandle }];
  await exited;
  const long = 'long '.repeat(50);
  const keys = ['key', long, 7];
  for (let round = 0; round < 3; round++) {
    await die(handle, { holds: [{ keys }, { keys: 'read', mode: 'shared' }] });
    // It also ends without having seen to those.
    await die(handle, { holds: [{ keys: 'other' }] });
  }
  const lock = KeyedLock.from(handle);
  expect(lock.size).toBe(4);
  expect(lock.inspect()).toEqual([]);
  const told = ['read', ...keys, 'other', 'third', ...keys].map((key) =>
    lock.withLockSync(key, ({ abandoned }) => abandoned),
  );
  expect(told).toEqual([false, true, true, true, true, false, false, false, false]);
  expect(lock.size).toBe(0);
  expect(lock.stats().abandoned).toBe(3 * 4);
});
