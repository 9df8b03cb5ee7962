import type BetterSqlite from 'better-sqlite3';
import type { Cluster, Redis as IoRedis } from 'ioredis';
import type { Redis as IoValkey } from 'iovalkey';
import type { createClient, createCluster } from 'redis';
import type { LeaseStore } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';

/** Compiled, never run: the options accept every client with its own types. */
export function storesOf(clients: {
  better: BetterSqlite.Database;
  ioredis: IoRedis | Cluster;
  iovalkey: IoValkey;
  redis: ReturnType<typeof createClient> | ReturnType<typeof createCluster>;
}): LeaseStore[] {
  return [
    sqliteLeaseStore({ database: clients.better }),
    redisLeaseStore({ client: clients.ioredis }),
    redisLeaseStore({ client: clients.iovalkey }),
    redisLeaseStore({ client: clients.redis }),
    // @ts-expect-error -- neither a database nor a path
    sqliteLeaseStore({ table: 'leases' }),
    // @ts-expect-error -- no client
    redisLeaseStore({ prefix: 'leases:' }),
  ];
}
