import type BetterSqlite from 'better-sqlite3';
import type { Cluster, Redis as IoRedis } from 'ioredis';
import type { Redis as IoValkey } from 'iovalkey';
import type { Client, Pool } from 'pg';
import type { PGlite } from '@electric-sql/pglite';
import type { Sql } from 'postgres';
import type { createClient, createCluster } from 'redis';
import type { LeaseStore } from 'stripelock';
import { postgresLeaseStore } from 'stripelock/postgres';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';

/** Compiled, never run: the options accept every client with its own types. */
export function storesOf(clients: {
  better: BetterSqlite.Database;
  ioredis: IoRedis | Cluster;
  iovalkey: IoValkey;
  pgPool: Pool;
  pg: Client;
  postgres: Sql;
  pglite: PGlite;
  redis: ReturnType<typeof createClient> | ReturnType<typeof createCluster>;
}): LeaseStore[] {
  return [
    sqliteLeaseStore({ database: clients.better }),
    redisLeaseStore({ client: clients.ioredis }),
    redisLeaseStore({ client: clients.iovalkey }),
    redisLeaseStore({ client: clients.redis }),
    postgresLeaseStore({ pool: clients.pgPool }),
    postgresLeaseStore({ client: clients.pg }),
    postgresLeaseStore({ pool: clients.postgres }),
    postgresLeaseStore({ client: clients.pglite }),
    // @ts-expect-error -- neither a database nor a path
    sqliteLeaseStore({ table: 'leases' }),
    // @ts-expect-error -- no client
    redisLeaseStore({ prefix: 'leases:' }),
  ];
}
