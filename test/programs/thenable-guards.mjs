// Guards whose prototypes have a `then`. Argument: the engine. Prints how many stripes are held in the end.
import assert from 'node:assert/strict';
import { Guard, StripedLock } from 'stripelock';

const lock = new StripedLock({ engine: process.argv[2] });

async function useAll() {
  for (const keys of ['key', ['key', 'other']]) {
    for (const mode of ['exclusive', 'shared']) {
      const seen = [];
      await lock.withLock(keys, { mode }, (guard) => void seen.push(guard));
      assert.equal(seen.length, 1);
      assert.ok(seen[0] instanceof Guard && !seen[0].held);
      const guard = await lock.acquire(keys, { mode });
      assert.ok(guard instanceof Guard && guard.held);
      const waiting = lock.acquire(keys);
      guard.release();
      const next = await waiting;
      assert.ok(next instanceof Guard && next.held);
      next.release();
    }
  }
}

const thens = [
  (resolve) => resolve('something else'),
  () => undefined,
  (_, reject) => reject(new Error('then')),
];
for (const then of thens) {
  Guard.prototype.then = then;
  await useAll();
  delete Guard.prototype.then;
}
Object.defineProperty(Guard.prototype, 'then', {
  configurable: true,
  get() {
    throw new Error('no then');
  },
});
await useAll();
delete Guard.prototype.then;
console.log('held', lock.stats().held);
