import type BetterSqlite from 'better-sqlite3';
import type { Cluster, Redis as IoRedis } from 'ioredis';
import type { Redis as IoValkey } from 'iovalkey';
import type { Connection as MariadbConnection, Pool as MariadbPool } from 'mariadb';
import type { Connection, Pool as MysqlPool } from 'mysql2';
import type { Connection as PromiseConnection, Pool as PromisePool } from 'mysql2/promise';
import type { Client, Pool } from 'pg';
import type { PGlite } from '@electric-sql/pglite';
import type { Sql } from 'postgres';
import type { createClient, createCluster } from 'redis';
import type { LeaseStore } from 'stripelock';
import { mysqlLeaseStore } from 'stripelock/mysql';
import { postgresLeaseStore, type PostgresQueryClient } from 'stripelock/postgres';
import type { Collection as Collection7, Db as Db7 } from 'mongodb';
import type { Collection as Collection6, Db as Db6 } from 'mongodb6';
import { mongodbLeaseStore } from 'stripelock/mongodb';
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
  queryClient: PostgresQueryClient;
  mysql2: { pool: MysqlPool; connection: Connection };
  mysql2Promise: { pool: PromisePool; connection: PromiseConnection };
  mariadb: { pool: MariadbPool; connection: MariadbConnection };
  mongodb: { collection: Collection7; db: Db7; typed: Collection7<{ name: string }> };
  mongodb6: { collection: Collection6; db: Db6; typed: Collection6<{ name: string }> };
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
    postgresLeaseStore({ client: clients.queryClient }),
    postgresLeaseStore({ client: { query: async (text, values) => [text, ...values].slice(0, 0) } }),
    mysqlLeaseStore({ pool: clients.mysql2.pool }),
    mysqlLeaseStore({ client: clients.mysql2.connection }),
    mysqlLeaseStore({ pool: clients.mysql2Promise.pool }),
    mysqlLeaseStore({ client: clients.mysql2Promise.connection }),
    mysqlLeaseStore({ pool: clients.mariadb.pool }),
    mysqlLeaseStore({ client: clients.mariadb.connection }),
    mongodbLeaseStore({ collection: clients.mongodb.collection, timeout: 500, drift: 0.01 }),
    mongodbLeaseStore({ collection: clients.mongodb.typed }),
    mongodbLeaseStore({ db: clients.mongodb.db }),
    mongodbLeaseStore({ collection: clients.mongodb6.collection }),
    mongodbLeaseStore({ collection: clients.mongodb6.typed }),
    mongodbLeaseStore({ db: clients.mongodb6.db }),
    // @ts-expect-error -- neither a database nor a path
    sqliteLeaseStore({ table: 'leases' }),
    // @ts-expect-error -- a database is not a collection
    mongodbLeaseStore({ collection: clients.mongodb.db }),
    // @ts-expect-error -- one or the other
    mongodbLeaseStore({ collection: clients.mongodb.collection, db: clients.mongodb.db }),
    // @ts-expect-error -- neither a collection nor a database
    mongodbLeaseStore({ timeout: 500 }),
    // @ts-expect-error -- no client
    redisLeaseStore({ prefix: 'leases:' }),
  ];
}
