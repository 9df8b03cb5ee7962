import { afterAll, describe, onTestFinished } from 'vitest';
import { MemoryLeaseStore } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { FixedClock } from 'stripelock/testing';
import { redisCommand, RedisServer } from '../support/redis-server.mjs';
import { polled, reopenable } from '../support/reopenable.mjs';
import { onNode20 } from '../support/sqlite-drivers.mjs';
import { sqliteDrivers, temporaryFile } from '../support/sqlite.js';
import { delayed, describePairs, type Scene, slow } from './lease-pairs.js';

/** Milliseconds that a request, or an answer, takes on an injected clock. */
const TRAVEL = 7;

const server = redisCommand === undefined ? undefined : await RedisServer.start();
afterAll(() => server?.stop());

describe('over a memory store', () => {
  describePairs(
    (isBackground) => {
      const clock = isBackground ? undefined : new FixedClock();
      const store = new MemoryLeaseStore(clock && { clock });
      return { clock, open: () => store };
    },
    { isMemory: true },
  );
});

describe('over a store that is polled', () => {
  describePairs((isBackground) => {
    if (isBackground) {
      const store = reopenable(new MemoryLeaseStore());
      return { clock: undefined, open: () => store };
    }
    const clock = new FixedClock();
    const store = slow(polled(new MemoryLeaseStore({ clock })), () => clock.advance(TRAVEL));
    return { clock, open: () => store };
  });
});

describe('over SQLite', () => {
  const start = (isBackground: boolean): Scene => {
    const { file, remove } = temporaryFile();
    onTestFinished(remove);
    if (isBackground && !onNode20) {
      const open = (): ReturnType<typeof sqliteLeaseStore> => {
        const store = sqliteLeaseStore({ path: file });
        onTestFinished(() => store.close());
        return store;
      };
      return { clock: undefined, open };
    }
    const clock = new FixedClock(Date.now());
    const open = (): ReturnType<typeof sqliteLeaseStore> => {
      const database = sqliteDrivers[0]!.open(file);
      onTestFinished(() => void database.close());
      return slow(sqliteLeaseStore({ database, clock }), () => clock.advance(TRAVEL));
    };
    return { clock, open, keepsForWaiters: true };
  };
  // Node 20 has no driver that another thread can load by itself.
  describePairs(start, { isBoundToThread: onNode20 });
});

describe.skipIf(server === undefined)('over Redis', () => {
  describePairs(async () => {
    await server!.command('FLUSHALL');
    return {
      clock: undefined,
      open: () => {
        const store = redisLeaseStore({ url: `redis://127.0.0.1:${server!.port}`, timeout: 30_000 });
        onTestFinished(() => store.close());
        return slow(store, delayed);
      },
    };
  });
});
