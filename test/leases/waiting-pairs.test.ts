import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager, MemoryLeaseStore, type LeaseStore } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { redisClients } from '../support/redis-clients.mjs';
import { redisCommand, RedisServer } from '../support/redis-server.mjs';
import { sqliteDrivers, temporaryFile } from '../support/sqlite.js';
import { FaultyStore } from './faulty-store.js';

/** The kinds of acquisitions. They overlap: slot 1 of "a" is the key "a#slot1" of the store. */
const KINDS = [
  { kind: 'one key', keys: 'a' },
  { kind: 'several keys', keys: ['a', 'a#slot1', 'b'] },
  { kind: 'a permit of one', keys: 'a', limit: 1 },
  { kind: 'a permit of two', keys: 'a', limit: 2 },
  { kind: 'a permit of three', keys: 'a', limit: 3 },
] as const;
type Kind = (typeof KINDS)[number];
const PAIRS = KINDS.flatMap((crowd) =>
  KINDS.map((waiter) => [waiter.kind, crowd.kind, waiter, crowd] as const),
);

/** Acquisitions that always want the key, besides the one that is counted. */
const CROWD = 6;
/**
 * Grants of the crowd before the waiter's own. In one line they are at most the crowd for each line that the waiter joins, and
 * a list joins up to seven. Stores take turns of up to 50 ms over SQLite, which is ten grants. The rest is for lost turns.
 */
const BOUND = 150;
const MOST = { timeout: 50_000 };

function acquire(manager: LeaseManager, kind: Kind): ReturnType<LeaseManager['acquire']> {
  const { keys } = kind;
  return 'limit' in kind
    ? manager.acquire(keys, { limit: kind.limit, ...MOST })
    : manager.acquire(keys, MOST);
}

/** The crowd's grants between the waiter's request and its grant. The crowd stops soon after the bound. */
async function grantsBefore(
  waiter: Kind,
  crowd: Kind,
  makeManager: (name: string) => LeaseManager,
): Promise<number> {
  let grants = -CROWD;
  let isServed = false;
  const goesOn = (): boolean => !isServed && grants <= BOUND;
  const crowds = Array.from({ length: CROWD }, async (_, i) => {
    const manager = makeManager(`crowd ${i % 2}`);
    while (goesOn()) {
      const lease = await acquire(manager, crowd);
      grants++;
      await delay(5);
      await lease.release();
    }
  });
  while (grants < 0) await delay(1);
  const before = grants;
  const lease = await acquire(makeManager('waiter'), waiter);
  const after = grants;
  isServed = true;
  await lease.release();
  await Promise.all(crowds);
  return after - before;
}

/** Each call opens one more client of the same leases. */
type Opens = () => LeaseStore | Promise<LeaseStore>;

const server = redisCommand === undefined ? undefined : await RedisServer.start();
afterAll(() => server?.stop());

const STORES: readonly (readonly [store: string, start: () => Opens | Promise<Opens>])[] = [
  [
    'memory',
    () => {
      const store = new MemoryLeaseStore();
      return () => store;
    },
  ],
  [
    'a store that is polled',
    () => {
      const store = new FaultyStore();
      return () => store;
    },
  ],
  [
    'SQLite',
    () => {
      const { file, remove } = temporaryFile();
      onTestFinished(remove);
      return () => {
        const database = sqliteDrivers[0]!.open(file);
        onTestFinished(() => void database.close());
        return sqliteLeaseStore({ database });
      };
    },
  ],
  ...(server === undefined
    ? []
    : [
        [
          'Redis',
          async () => {
            await server.command('FLUSHALL');
            return async () => {
              const { client, close } = await redisClients.ioredis(server.port);
              const store = redisLeaseStore({ client, timeout: 30_000 });
              onTestFinished(async () => {
                await store.close();
                close();
              });
              return store;
            };
          },
        ] as const,
      ]),
];

describe.each(STORES)('acquisitions that contend for keys over %s', (_store, start) => {
  it.each(PAIRS)(
    'serve %s beside a crowd with %s, in one manager',
    async (_waiter, _crowd, waiter, crowd) => {
      const store = await (await start())();
      const manager = new LeaseManager({ store });
      expect(await grantsBefore(waiter, crowd, () => manager)).toBeLessThanOrEqual(BOUND);
    },
  );

  it.each(PAIRS)('serve %s beside a crowd with %s, in three', async (_waiter, _crowd, waiter, crowd) => {
    const open = await start();
    const managers = new Map<string, LeaseManager>();
    for (const name of ['crowd 0', 'crowd 1', 'waiter'])
      managers.set(name, new LeaseManager({ store: await open() }));
    expect(await grantsBefore(waiter, crowd, (name) => managers.get(name)!)).toBeLessThanOrEqual(BOUND);
  });

  it('get all permits that are free at once, without a pause', async () => {
    const manager = new LeaseManager({
      store: await (await start())(),
      backoff: { initial: 50_000, max: 50_000, jitter: 0 },
    });
    const all = await Promise.all(
      Array.from({ length: 20 }, () => manager.acquire('a', { limit: 20, timeout: 20_000 })),
    );
    expect(all.map(({ slot }) => slot).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 20 }, (_, i) => i),
    );
    await manager.close();
  });
});
