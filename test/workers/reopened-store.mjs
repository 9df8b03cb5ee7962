// The module of a store's source: opens a memory store in the thread that renews leases, and does to it what the
// options say.
import { setTimeout as delay } from 'node:timers/promises';
import { MemoryLeaseStore } from 'stripelock';

/**
 * `control`: an Int32Array in shared memory, of: milliseconds by which renewals are late, negative to stop them; 1 while
 * they fail; how many were answered; 1 to end the thread with the next one; how many have begun.
 */
export async function open({ handle, control, broken }) {
  if (broken) throw Object.assign(new Error('the password is wrong'), { code: 'EPASSWORD' });
  const store = MemoryLeaseStore.from(handle);
  const [LATE, FAILING, ANSWERED, ENDS, BEGUN] = [0, 1, 2, 3, 4];
  const numbers = new Int32Array(control);
  return {
    tryAcquire: () => Promise.reject(new Error('only renewals are expected')),
    release: () => Promise.reject(new Error('only renewals are expected')),
    inspect: (key) => store.inspect(key),
    async renew(key, owner, ttl, info) {
      if (Atomics.load(numbers, ENDS) === 1) process.exit(7);
      if (Atomics.load(numbers, FAILING) === 1) throw new Error('the network is down');
      Atomics.add(numbers, BEGUN, 1);
      while (Atomics.load(numbers, LATE) < 0) await delay(1);
      await delay(Atomics.load(numbers, LATE));
      const renewed = await store.renew(key, owner, ttl, info);
      Atomics.add(numbers, ANSWERED, 1);
      return renewed;
    },
  };
}

/** Not a store. */
export const notAFunction = 1;
