import { describe, expect, it } from 'vitest';
import { LeaseManager } from 'stripelock';
import { MongodbScene, mongodbDrivers, PATIENT, type MongodbStore } from './mongodb-setup.js';

const LONG = 60_000;
/** Milliseconds: shorter than the pause between attempts of waiters that poll only when the test says so. */
const WOKEN = 10_000;

/** How long an acquisition waits, in milliseconds, after `release`. */
async function handOver(
  waiting: MongodbStore,
  streams: () => Promise<void>,
  release: () => unknown,
): Promise<number> {
  const manager = new LeaseManager({ store: waiting, backoff: PATIENT });
  const acquired = manager.acquire('key', { timeout: 50_000 });
  await streams();
  const released = performance.now();
  await release();
  const lease = await acquired;
  const elapsed = performance.now() - released;
  await lease.release();
  await manager.close();
  return elapsed;
}

describe.each(mongodbDrivers)('a waiter in the MongoDB store on %s', (driver) => {
  const mongo = new MongodbScene(driver);
  const streamsAre = async (count: number): Promise<void> => {
    await expect.poll(() => mongo.server.streams, { timeout: 20_000 }).toBe(count);
  };

  it('is woken by a release through another client', async () => {
    const other = await mongo.storeOnAnotherClient();
    await mongo.store.tryAcquire('key', 'a', LONG);
    const elapsed = await handOver(
      other,
      () => streamsAre(1),
      () => mongo.store.release('key', 'a'),
    );
    expect(elapsed).toBeLessThan(WOKEN);
  });

  it('is woken by a release through the same store, as through any other', async () => {
    await mongo.store.tryAcquire('key', 'a', LONG);
    const elapsed = await handOver(
      mongo.store,
      () => streamsAre(1),
      () => mongo.store.release('key', 'a'),
    );
    expect(elapsed).toBeLessThan(WOKEN);
  });

  it('is woken by a release just before the stream is open', async () => {
    const other = await mongo.storeOnAnotherClient();
    await mongo.store.tryAcquire('key', 'a', LONG);
    let open: () => void = () => undefined;
    mongo.server.fail({ command: 'aggregate', until: new Promise<void>((resolve) => (open = resolve)) });
    const refused = async (): Promise<void> => {
      await expect.poll(() => mongo.sent(), { timeout: 20_000 }).toContain('aggregate');
    };
    const release = async (): Promise<void> => {
      await mongo.store.release('key', 'a');
      open();
    };
    expect(await handOver(other, refused, release)).toBeLessThan(WOKEN);
  });

  it('is woken when the lease expires', async () => {
    await mongo.store.tryAcquire('key', 'somebody who died', 300);
    expect(
      await handOver(
        mongo.store,
        async () => undefined,
        () => undefined,
      ),
    ).toBeLessThan(WOKEN);
  });

  it('is woken where the server reports the whole document in place of what has changed', async () => {
    await mongo.store.tryAcquire('key', 'a', LONG);
    mongo.server.data.reportsWhole = true;
    const release = (): Promise<boolean> => mongo.store.release('key', 'a');
    expect(await handOver(mongo.store, () => streamsAre(1), release)).toBeLessThan(WOKEN);
  });

  it('is woken one at a time, and each gets its turn', async () => {
    const stores = await Promise.all([1, 2, 3, 4].map(() => mongo.storeOnAnotherClient()));
    let inside = 0;
    const turns = stores.map(async (store) => {
      const manager = new LeaseManager({ store, backoff: { initial: 20, max: 1000 } });
      for (let i = 0; i < 5; i++) {
        await manager.withLease('key', { timeout: 50_000 }, async () => {
          expect(++inside).toBe(1);
          await new Promise((resolve) => setTimeout(resolve, 2));
          inside--;
        });
      }
      await manager.close();
    });
    await Promise.all(turns);
  });

  it.each([
    ['the connections were cut', () => mongo.server.cut()],
    [
      'the server has forgotten the cursor',
      () => mongo.server.fail({ command: 'getMore', error: { code: 43 } }),
    ],
  ])('is woken after %s', async (_, fail) => {
    const other = await mongo.storeOnAnotherClient();
    await mongo.store.tryAcquire('key', 'a', LONG);
    const resumed = async (): Promise<void> => {
      // The driver has the first answer.
      await expect.poll(() => mongo.sent(), { timeout: 20_000 }).toContain('getMore');
      fail();
      await expect.poll(() => mongo.sent(), { timeout: 20_000 }).toContain('aggregate');
    };
    expect(await handOver(other, resumed, () => mongo.store.release('key', 'a'))).toBeLessThan(WOKEN);
  });

  it('is notified again one second after a stream has failed permanently', async () => {
    const other = await mongo.storeOnAnotherClient();
    await mongo.store.tryAcquire('key', 'a', LONG);
    const failed = async (): Promise<void> => {
      await streamsAre(1);
      mongo.sent();
      mongo.server.fail({
        command: 'getMore',
        error: { code: 286, message: 'the log has been overwritten' },
      });
      await expect.poll(() => mongo.sent(), { timeout: 20_000 }).toContain('aggregate');
    };
    expect(await handOver(other, failed, () => mongo.store.release('key', 'a'))).toBeLessThan(WOKEN);
  });

  it('needs a stream only while it waits', async () => {
    await mongo.store.tryAcquire('key', 'a', LONG);
    expect(mongo.server.streams).toBe(0);
    const stop = mongo.store.onRelease('key', () => undefined);
    await streamsAre(1);
    const stopOther = mongo.store.onRelease('other', () => undefined);
    stop();
    stop();
    stopOther();
    // A second later, so that hand-overs that follow each other share it.
    await streamsAre(0);
    mongo.store.onRelease('key', () => undefined);
    await streamsAre(1);
    await mongo.store.close();
    await streamsAre(0);
  });

  it('leaves no stream open if it is closed before the first answer', async () => {
    mongo.store.onRelease('key', () => undefined);
    while (mongo.server.streams === 0) await new Promise((resolve) => setImmediate(resolve));
    await mongo.store.close();
    await streamsAre(0);
  });

  it('opens no new stream for a failed one if no acquisition waits any more', async () => {
    const stop = mongo.store.onRelease('key', () => undefined);
    await streamsAre(1);
    mongo.server.fail({ command: 'getMore', error: { code: 286 } });
    await streamsAre(0);
    stop();
    mongo.sent();
    // Beyond the second after which it would be opened again.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(mongo.sent()).not.toContain('aggregate');
  });

  it('polls where a user may not open a stream, and asks for one at most once a second', async () => {
    mongo.server.fail({ command: 'aggregate', error: { code: 13 }, times: 100 });
    await mongo.store.tryAcquire('key', 'a', LONG);
    const other = await mongo.storeOnAnotherClient();
    const manager = new LeaseManager({ store: other, backoff: { initial: 10, max: 50 } });
    const begun = performance.now();
    // A timer may fire a little early.
    const most = (): number => 1 + (performance.now() - begun) / 990;
    const names: string[] = [];
    const sent = (name: string): number => {
      names.push(...mongo.sent());
      return names.filter((one) => one === name).length;
    };
    for (let i = 0; i < 3; i++) {
      const waiting = manager.acquire('key', { timeout: 50_000 });
      // It asks again and again.
      const asked = sent('findAndModify') + 3;
      await expect.poll(() => sent('findAndModify'), { timeout: 20_000 }).toBeGreaterThan(asked);
      await expect.poll(() => sent('aggregate'), { timeout: 20_000 }).toBeGreaterThan(0);
      await mongo.store.release('key', 'a');
      await (await waiting).release();
      await mongo.store.tryAcquire('key', 'a', LONG);
    }
    expect(sent('aggregate')).toBeLessThanOrEqual(most());
    await manager.close();
  });

  it('polls on a client with one connection, which a stream would keep from everybody', async () => {
    const one = await mongo.storeOnAnotherClient({}, { maxPoolSize: 1 });
    await mongo.store.tryAcquire('key', 'a', LONG);
    const manager = new LeaseManager({ store: one, backoff: { initial: 10, max: 50 } });
    const waiting = manager.acquire('key', { timeout: 50_000 });
    const asked = (): number => mongo.server.log.filter(({ name }) => name === 'findAndModify').length;
    const most = asked() + 3;
    await expect.poll(asked, { timeout: 20_000 }).toBeGreaterThan(most);
    expect(mongo.server.streams).toBe(0);
    await mongo.store.release('key', 'a');
    await (await waiting).release();
    await manager.close();
  });
});

describe.each(mongodbDrivers)('a waiter in the MongoDB store on %s, on a single server', (driver) => {
  const mongo = new MongodbScene(driver, false);

  it('is woken by a release through the same store, and polls for others', async () => {
    const other = await mongo.storeOnAnotherClient();
    await mongo.store.tryAcquire('key', 'a', LONG);
    const asked = async (): Promise<void> => {
      await expect.poll(() => mongo.sent(), { timeout: 20_000 }).toContain('aggregate');
    };
    expect(await handOver(mongo.store, asked, () => mongo.store.release('key', 'a'))).toBeLessThan(WOKEN);
    const manager = new LeaseManager({ store: other, backoff: { initial: 10, max: 50 } });
    await mongo.store.tryAcquire('key', 'a', LONG);
    const waiting = manager.acquire('key', { timeout: 50_000 });
    await mongo.store.release('key', 'a');
    await (await waiting).release();
    await manager.close();
  });

  it('leaves others a chance if a store hands the key on within itself', async () => {
    const other = await mongo.storeOnAnotherClient();
    // Four here never leave the key free for longer than a round trip.
    const busy = new LeaseManager({ store: mongo.store, backoff: { initial: 10, max: 1000 } });
    let stopped = false;
    const loops = [1, 2, 3, 4].map(async () => {
      while (!stopped) await busy.withLease('key', { timeout: 50_000 }, () => undefined);
    });
    const manager = new LeaseManager({ store: other, backoff: { initial: 10, max: 100 } });
    for (let i = 0; i < 3; i++) await manager.withLease('key', { timeout: 50_000 }, () => undefined);
    stopped = true;
    await Promise.all(loops);
    await busy.close();
    await manager.close();
  });
});
