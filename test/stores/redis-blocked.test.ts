import { describe, expect, it } from 'vitest';
import { LeaseManager } from 'stripelock';
import { Replies } from '../../unbundled/lease/contract/replies.js';
import { block } from '../support/block.js';
import { rejectionOf, watch } from '../support/waiting.js';
import { redisLibraries, RedisScene } from './redis-setup.js';

const TIMEOUT = 100;

describe.each(redisLibraries)(
  'an event loop that was blocked for longer than an operation may take, on %s',
  (library) => {
    const redis = new RedisScene(library);

    it('does not fail operations that the server has already answered: renew, release, close, acquire', async () => {
      const store = redis.storeWith({ timeout: TIMEOUT });
      const manager = new LeaseManager({ store, renew: false });
      const lease = await manager.acquire('key', { timeout: 20_000 });
      const renewed = lease.renew();
      block(3 * TIMEOUT);
      expect(await renewed).toBe(true);
      const released = lease.release();
      block(3 * TIMEOUT);
      expect(await released).toBe(true);
      const again = manager.tryAcquire('key');
      block(3 * TIMEOUT);
      expect((await again)?.held).toBe(true);
      const closed = manager.close();
      block(3 * TIMEOUT);
      await closed;
      expect(await store.inspect('key')).toBeUndefined();
      const last = new LeaseManager({ store });
      const acquired = last.acquire('key', { timeout: TIMEOUT });
      block(3 * TIMEOUT);
      expect((await acquired).held).toBe(true);
      await last.close();
    });
  },
);

describe('the time limit of replies', () => {
  it('is not shortened by a blocked event loop, and is still enforced', async () => {
    const replies = new Replies(50, 'Redis');
    const [first, second] = [1, 2].map(() => watch(new Promise((_, reject) => void replies.expect(reject))));
    const started = performance.now();
    block(120);
    await rejectionOf(first!.promise);
    expect(performance.now() - started).toBeGreaterThanOrEqual(150);
    await rejectionOf(second!.promise);
    // On a machine that does not run timers for seconds this would fail.
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});
