import { expect, it } from 'vitest';
import { ETCD_ADVICE, EtcdCluster, hasEtcd } from '../support/etcd-server.mjs';
import { hasPostgres, POSTGRES_ADVICE, PostgresServer } from '../support/postgres-server.mjs';
import { StandIn } from '../support/mongodb/stand-in.mjs';
import { REDIS_ADVICE, redisCommand, RedisServer } from '../support/redis-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { runExample, type Run } from './run-example.js';

function expectOneAuthorEachNight({ code, stdout, stderr }: Run): void {
  expect(code, stderr).toBe(0);
  const [, crashed] = /^(process \d) night 1: crashes half-way$/m.exec(stdout)!;
  const authors = [...stdout.matchAll(/^night (\d): done by (process \d) under token (\d+)$/gm)];
  expect(authors.map(([, night]) => night)).toEqual(['1', '2']);
  expect(authors[0]![2]).not.toBe(crashed);
  for (const [, night, author] of authors) {
    expect(stdout).toContain(`${author} night ${night}: has done the job`);
    // The others came, too, and had nothing to do: all of three but the one that crashed.
    const others = stdout.matchAll(new RegExp(`^process \\d night ${night}: finds the job done$`, 'gm'));
    expect([...others], stdout + stderr).toHaveLength(1);
  }
  expect(BigInt(authors[1]![3]!) > BigInt(authors[0]![3]!)).toBe(true);
}

it('the cron job runs once a night on SQLite, also after a crash, or says which Node it needs', async () => {
  const run = await runExample('cron/cron.mjs', ['--store', 'sqlite', '--nights', '2']);
  if (process.getBuiltinModule('node:sqlite')) expectOneAuthorEachNight(run);
  else expect(run).toMatchObject({ code: 1, stderr: expect.stringContaining('needs Node 22.13') as string });
});

/** The stores that are on a server, and how to start one. */
const onServers = [
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
    store: 'mongodb',
    missing: undefined,
    advice: '',
    // The stand-in of the server.
    start: () => StandIn.start(),
  },
];

for (const { store, missing, advice, start } of onServers) {
  if (missing !== undefined) {
    reportMissing(`the cron example on ${store}`, missing, advice);
    continue;
  }
  it(`the cron job runs once a night on ${store}, also after a crash`, async () => {
    const server = await start();
    try {
      const options = ['--store', store, '--nights', '2', '--url', server.url];
      expectOneAuthorEachNight(await runExample('cron/cron.mjs', options));
    } finally {
      await server.stop();
    }
  });
}
