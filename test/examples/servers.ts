import { it } from 'vitest';
import { ETCD_ADVICE, EtcdCluster, hasEtcd } from '../support/etcd-server.mjs';
import { hasMysql, MYSQL_ADVICE, MysqlServer } from '../support/mysql-server.mjs';
import { hasPostgres, POSTGRES_ADVICE, PostgresServer } from '../support/postgres-server.mjs';
import { StandIn } from '../support/mongodb/stand-in.mjs';
import { REDIS_ADVICE, redisCommand, RedisServer } from '../support/redis-server.mjs';
import { reportMissing } from '../support/requirements.js';

/** The stores of examples that are on a server, and how to start one. */
const servers = [
  {
    store: 'redis',
    missing: redisCommand === undefined ? 'redis-server' : undefined,
    advice: REDIS_ADVICE,
    start: async () => {
      const server = await RedisServer.start();
      return { url: `redis://127.0.0.1:${server.port}`, stop: () => server.stop() };
    },
  },
  {
    store: 'etcd',
    missing: hasEtcd ? undefined : 'etcd',
    advice: ETCD_ADVICE,
    start: async () => {
      const cluster = await EtcdCluster.start();
      return { url: cluster.endpoints[0]!, stop: () => cluster.stop() };
    },
  },
  {
    store: 'postgres',
    missing: hasPostgres ? undefined : 'postgres',
    advice: POSTGRES_ADVICE,
    start: async () => {
      const server = await PostgresServer.start();
      return { url: server.url, stop: () => server.stop() };
    },
  },
  {
    store: 'mysql',
    missing: hasMysql ? undefined : 'mariadbd',
    advice: MYSQL_ADVICE,
    start: async () => {
      const server = await MysqlServer.start();
      return { url: server.url, stop: () => server.stop() };
    },
  },
  {
    store: 'mongodb',
    missing: undefined,
    advice: '',
    // The stand-in of the server.
    start: () => StandIn.start(),
  },
];

/** A test for each store on a server, with the arguments of an example that lead to it. */
export function onEachServer(what: string, run: (args: string[]) => Promise<void>): void {
  for (const { store, missing, advice, start } of servers) {
    if (missing !== undefined) {
      reportMissing(`${what} on ${store}`, missing, advice);
      continue;
    }
    it(`${what} on ${store}`, async () => {
      const server = await start();
      try {
        await run(['--store', store, '--url', server.url]);
      } finally {
        await server.stop();
      }
    });
  }
}
