import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { LeaseManager } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { sqliteDrivers } from '../support/sqlite.js';
import { SqliteScene, WallClock } from './sqlite-setup.js';

describe.each(sqliteDrivers)('the clock of the SQLite store on $name', (driver) => {
  const sqlite = new SqliteScene(driver);

  it('makes tokens rise after the table was emptied, even if the wall clock was set back', async () => {
    const clock = new WallClock();
    const mine = sqlite.open();
    const store = sqliteLeaseStore({ database: mine, clock });
    const first = (await store.tryAcquire('key', 'a', 60_000))!;
    expect(first).toBe(BigInt(clock.time) * 1_000_000n);
    mine.exec('DELETE FROM stripelock_leases');
    clock.time -= 3_600_000;
    const second = (await store.tryAcquire('key', 'b', 60_000))!;
    expect(second).toBe(first + 1n);
    const afterRestart = sqliteLeaseStore({ database: sqlite.open(), clock });
    await store.release('key', 'b');
    expect(await afterRestart.tryAcquire('key', 'c', 60_000)).toBe(second + 1n);
  });

  it('makes tokens rise after the file was lost, by the wall clock', async () => {
    const clock = new WallClock();
    const first = await sqliteLeaseStore({ database: sqlite.open(), clock }).tryAcquire('key', 'a', 60_000);
    clock.time += 1;
    const second = await sqliteLeaseStore({ database: sqlite.driver.open(':memory:'), clock }).tryAcquire(
      'key',
      'a',
      60_000,
    );
    expect(second! > first!).toBe(true);
  });

  it('neither ends leases early nor keeps them forever when the wall clock is set back', async () => {
    const clock = new WallClock();
    const store = sqliteLeaseStore({ database: sqlite.open(), clock });
    await store.tryAcquire('key', 'a', 60_000);
    clock.time -= 3_600_000;
    expect(await store.renew('key', 'a', 60_000)).toBe(true);
    clock.time += 59_000;
    expect(await store.tryAcquire('key', 'b', 60_000)).toBeUndefined();
    clock.time += 1100;
    expect(await store.tryAcquire('key', 'b', 60_000)).toBeTypeOf('bigint');
  });

  describe('while others look at it, the wall clock', () => {
    const HOUR = 3_600_000;
    let step = 0;

    beforeEach(() => {
      step = 0;
      const now = Date.now.bind(Date);
      vi.spyOn(Date, 'now').mockImplementation(() => now() + step);
    });
    afterEach(() => {
      vi.restoreAllMocks();
    });

    it('set back by an hour does not extend the lease of a dead holder', async () => {
      const [mine, theirs] = [sqlite.open(), sqlite.open()].map((own) => sqliteLeaseStore({ database: own }));
      // Before the acquisition, whose commit may take long.
      const started = performance.now();
      await mine!.tryAcquire('key', 'dead', 1000);
      step = -HOUR;
      // One has seen it before, the other has not.
      for (const store of [mine!, theirs!]) {
        const lease = await new LeaseManager({ store }).acquire('key', { timeout: 20_000 });
        await lease.release();
      }
      expect(performance.now() - started).toBeGreaterThan(990);
    });

    it('set back and forth ends no lease early, even if it was renewed in between', async () => {
      const [mine, theirs] = [sqlite.open(), sqlite.open()].map((own) => sqliteLeaseStore({ database: own }));
      await mine!.tryAcquire('key', 'a', 60_000);
      expect(await theirs!.tryAcquire('key', 'b', 60_000)).toBeUndefined();
      step = -HOUR;
      expect(await mine!.renew('key', 'a', 60_000)).toBe(true);
      expect(await theirs!.tryAcquire('key', 'b', 60_000)).toBeUndefined();
      step = 0;
      for (const store of [theirs!, mine!]) {
        expect(await store.tryAcquire('key', 'b', 60_000)).toBeUndefined();
        expect(await store.renew('key', 'a', 60_000)).toBe(true);
      }
    });

    it('set forward ends no lease early in processes that have used the file before', async () => {
      const [mine, theirs] = [sqlite.open(), sqlite.open()].map((own) => sqliteLeaseStore({ database: own }));
      await mine!.tryAcquire('key', 'a', 60_000);
      expect(await theirs!.tryAcquire('key', 'b', 60_000)).toBeUndefined();
      step = HOUR;
      for (const store of [mine!, theirs!]) {
        expect(await store.tryAcquire('key', 'b', 60_000)).toBeUndefined();
        expect((await store.inspect('key'))!.remaining).toBeGreaterThan(30_000);
      }
    });

    it('that is not set is followed to the millisecond, however often the row is written', async () => {
      const mine = sqlite.open();
      const store = sqliteLeaseStore({ database: mine });
      for (let i = 0; i < 300; i++) {
        await store.tryAcquire('key', 'a', 60_000);
        await store.release('key', 'a');
      }
      const [row] = mine.prepare('SELECT time - wall AS ahead FROM stripelock_leases_clock').all();
      expect(row).toEqual({ ahead: 0 });
    });
  });

  it('keeps a lease for longer than its holder counts on, by the allowed drift', async () => {
    const clock = new WallClock();
    const store = sqliteLeaseStore({ database: sqlite.open(), clock, drift: 0.1 });
    await store.tryAcquire('key', 'a', 1000);
    expect((await store.inspect('key'))?.remaining).toBeLessThanOrEqual(1000);
    clock.time += 1100;
    expect(await store.tryAcquire('key', 'b', 1000)).toBeUndefined();
    clock.time += 1;
    expect(await store.tryAcquire('key', 'b', 1000)).toBeTypeOf('bigint');
  });
});
