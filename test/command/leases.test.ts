import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { etcdLeaseStore } from 'stripelock/etcd';
import { mongodbLeaseStore } from 'stripelock/mongodb';
import { mysqlLeaseStore } from 'stripelock/mysql';
import { postgresLeaseStore } from 'stripelock/postgres';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { withoutSecrets } from '../../unbundled/command/store-url.js';
import { EtcdCluster, hasEtcd } from '../support/etcd-server.mjs';
import { mongodbClients } from '../support/mongodb-clients.mjs';
import { StandIn } from '../support/mongodb/stand-in.mjs';
import { mysqlClients } from '../support/mysql-clients.mjs';
import { hasMysql, MysqlServer } from '../support/mysql-server.mjs';
import { postgresClients } from '../support/postgres-clients.mjs';
import { hasPostgres, PostgresServer } from '../support/postgres-server.mjs';
import { REDIS_ADVICE, redisCommand, RedisServer } from '../support/redis-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { COMMAND, Place, type Ended } from './started.js';

// `stripelock leases`, on real servers.

const LONG = 600_000;

let place: Place;
beforeEach(() => {
  place = new Place();
});
afterEach(() => place.remove());

const run = (...args: string[]): Promise<Ended> => place.stripelock('leases', ...args).ended;

if (redisCommand === undefined) {
  reportMissing('`stripelock leases`', 'redis-server', REDIS_ADVICE);
} else {
  describe('`stripelock leases`', () => {
    let server: RedisServer;
    let url: string;
    let store: ReturnType<typeof redisLeaseStore>;
    beforeAll(async () => {
      server = await RedisServer.start();
      url = `redis://127.0.0.1:${server.port}`;
    });
    afterAll(() => server.stop());
    beforeEach(async () => {
      await server.command('FLUSHALL');
      store = redisLeaseStore({ url, timeout: 30_000 });
    });
    afterEach(() => store.close());

    it('list shows a table, without characters that a terminal interprets', async () => {
      await store.tryAcquire('job:b', 'host 2', LONG);
      const token = await store.tryAcquire('job:a', 'host 1\u001b[2J', LONG, 'half done');
      await store.tryAcquire('other', 'host 3', LONG);
      const { code, stdout, stderr } = await run('list', '--store', url, '--prefix', 'job:');
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const [head, first, second, ...rest] = stdout.trimEnd().split('\n');
      expect(head).toMatch(/^KEY +OWNER +TOKEN +EXPIRES IN +INFO$/);
      expect(first).toMatch(new RegExp(`^job:a +host 1\\?\\[2J +${token} +[56]\\d\\d\\.\\d s +half done$`));
      expect(second).toMatch(/^job:b +host 2 +\d+ +[56]\d\d\.\d s$/);
      expect(rest).toEqual([]);
    });

    it('list says that a key is kept after a release', async () => {
      await store.tryAcquire('job', 'stripelock:kept:host 1', LONG, 'half done');
      const { stdout } = await run('list', '--store', url);
      expect(stdout).toMatch(/^job +kept after a release by host 1 +\d+ +[56]\d\d\.\d s +half done$/m);
    });

    it('list shows JSON, and says when there may be more', async () => {
      const token = await store.tryAcquire('a', 'me', LONG, 'info');
      await store.tryAcquire('b', 'me', LONG);
      const { code, stdout, stderr } = await run('list', '--store', url, '--json', '--limit', '1');
      expect(JSON.parse(stdout)).toEqual([
        {
          key: 'a',
          owner: 'me',
          token: String(token),
          remaining: expect.any(Number) as number,
          info: 'info',
        },
      ]);
      expect(code).toBe(0);
      expect(stderr).toBe('stripelock: these are the first 1 leases; --limit shows more\n');
      await server.command('FLUSHALL');
      expect(await run('list', '--store', url)).toMatchObject({ code: 0, stdout: 'no lease is held\n' });
      expect(await run('list', '--store', url, '--json')).toMatchObject({ code: 0, stdout: '[]\n' });
    });

    it('inspect shows the lease of a key, and exits with 1 if it is free', async () => {
      const token = await store.tryAcquire('key', 'me', LONG);
      const shown = await run('inspect', 'key', '--store', url, '--json');
      expect(shown.code).toBe(0);
      expect(JSON.parse(shown.stdout)).toMatchObject({ key: 'key', owner: 'me', token: String(token) });
      expect((await run('inspect', 'key', '--store', url)).stdout).toMatch(/^KEY.*\nkey +me +\d+/);
      expect(await run('inspect', '--store', url, '--', '-free')).toMatchObject({
        code: 1,
        stdout: 'no owner holds "-free"\n',
      });
      expect(await run('inspect', 'free', '--store', url, '--json')).toMatchObject({
        code: 1,
        stdout: 'null\n',
      });
    });

    it('revoke ends a lease with --yes, and refuses without a terminal', async () => {
      const token = await store.tryAcquire('key', 'me', LONG);
      const refused = await run('revoke', 'key', '--store', url);
      expect(refused).toMatchObject({
        code: 125,
        stderr: 'stripelock: without a terminal, leases revoke needs --yes\n',
      });
      expect((await store.inspect('key'))?.token).toBe(token);
      const revoked = await run('revoke', 'key', '--store', url, '--yes');
      expect(revoked).toMatchObject({ code: 0, stdout: 'revoked "key"\n' });
      expect(await store.inspect('key')).toBeUndefined();
      expect(await run('revoke', 'key', '--store', url, '--yes')).toMatchObject({
        code: 1,
        stdout: 'no owner holds "key"\n',
      });
      await store.tryAcquire('key', 'me', LONG);
      const { stdout } = await run('revoke', 'key', '--store', url, '--yes', '--json');
      expect(JSON.parse(stdout)).toMatchObject({ revoked: true, lease: { key: 'key', owner: 'me' } });
    });

    it.runIf(existsSync('/usr/bin/script'))(
      'revoke asks at a terminal, and revokes only after a yes',
      async () => {
        await store.tryAcquire('key', 'me', LONG);
        for (const [answer, isHeld] of [
          ['n', true],
          ['', true],
          ['y', false],
        ] as const) {
          const started = place.shell(`script -qec 'stripelock leases revoke key --store ${url}' /dev/null`);
          await started.says(/\[y\/N\]/);
          started.child.stdin.write(`${answer}\n`);
          expect((await started.ended).code).toBe(isHeld ? 1 : 0);
          expect((await store.inspect('key')) !== undefined).toBe(isHeld);
        }
      },
    );

    it('reads the store from STRIPELOCK_STORE', async () => {
      await store.tryAcquire('key', 'me', LONG);
      const { code, stdout } = await place.shell(`STRIPELOCK_STORE=${url} stripelock leases inspect key`)
        .ended;
      expect(code).toBe(0);
      expect(stdout).toContain('key');
    });

    it('prints no password if the server refuses it, or cannot be reached', async () => {
      for (const server of [`127.0.0.1:${new URL(url).port}`, '127.0.0.1:1']) {
        const { code, stdout, stderr } = await run('list', '--store', `redis://user:se%40cret@${server}`);
        expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
        expect(stderr).not.toBe('');
        expect(stderr).not.toMatch(/se(%40|@)cret/);
      }
    });

    it('names the packages to install if there is no client package', async () => {
      // Far from the packages that are installed for the tests.
      cpSync(path.dirname(COMMAND), path.join(place.folder, 'dist'), { recursive: true });
      const started = place.shell(`node dist/command.cjs leases list --store ${url}`);
      expect(await started.ended).toMatchObject({
        code: 125,
        stderr:
          'stripelock: a store in Redis needs a client package, and none is installed: ' +
          'npm install ioredis or npm install iovalkey or npm install redis\n',
      });
    });
  });
}

describe('`stripelock leases list` on', () => {
  /** Lists the one lease that `store` takes. */
  async function lists(
    store: { tryAcquire(key: string, owner: string, ttl: number): Promise<unknown>; close(): Promise<void> },
    url: string,
  ): Promise<void> {
    await store.tryAcquire('key', 'me', LONG);
    const { code, stdout, stderr } = await run('list', '--store', url, '--json');
    await store.close();
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(JSON.parse(stdout)).toMatchObject([{ key: 'key', owner: 'me' }]);
  }

  it.runIf(hasPostgres)('PostgreSQL', async () => {
    const server = await PostgresServer.start();
    onTestFinished(() => server.stop());
    const { client, close } = await postgresClients.pg(server.port);
    await lists(postgresLeaseStore({ pool: client, timeout: 30_000 }), server.url);
    await close();
  });

  it.runIf(hasMysql)('MySQL', async () => {
    const server = await MysqlServer.start();
    onTestFinished(() => server.stop());
    const url = `mysql://test:test@127.0.0.1:${server.port}/test`;
    const { client, close } = await mysqlClients['mysql2 pool'](url);
    await lists(mysqlLeaseStore({ pool: client, timeout: 30_000 }), url);
    await close();
  });

  it.runIf(hasMysql)('MySQL through `mariadb`, with as few connections as through `mysql2`', async () => {
    const server = await MysqlServer.start();
    onTestFinished(() => server.stop());
    const url = `mysql://test:test@127.0.0.1:${server.port}/test`;
    const { client, close } = await mysqlClients['mariadb pool'](url);
    const store = mysqlLeaseStore({ pool: client, timeout: 30_000 });
    await store.tryAcquire('key', 'me', LONG);
    // `mysql2` is not beside this copy. The package there writes down what it is called with.
    cpSync(path.dirname(COMMAND), path.join(place.folder, 'dist'), { recursive: true });
    const folder = path.join(place.folder, 'node_modules/mariadb');
    mkdirSync(folder, { recursive: true });
    const real = JSON.stringify(createRequire(import.meta.url).resolve('mariadb'));
    const recorder = `exports.createPool = (url) => {
      require('node:fs').appendFileSync('urls', url + '\\n');
      return require(${real}).createPool(url);
    };`;
    writeFileSync(path.join(folder, 'index.js'), recorder);
    for (const store of [url, `${url}?compress=true`]) {
      const list = place.shell(`node dist/command.cjs leases list --json --store '${store}'`);
      expect(JSON.parse((await list.ended).stdout)).toMatchObject([{ key: 'key', owner: 'me' }]);
    }
    const [plain, compressed] = readFileSync(path.join(place.folder, 'urls'), 'utf8').split('\n');
    expect(plain).toMatch(/^mariadb:.*[/]test[?]connectionLimit=2$/);
    expect(compressed).toMatch(/^mariadb:.*[/]test[?]compress=true&connectionLimit=2$/);
    // `mariadb` refuses a URL without a database, and quotes it.
    const refused = place.shell(
      "node dist/command.cjs leases list --store 'mysql://me:c2Vj=cmV0==@127.0.0.1' 2>&1",
    );
    const { stdout } = await refused.ended;
    expect(stdout).toContain('127.0.0.1');
    expect(stdout).not.toMatch(/c2Vj|cmV0/);
    await store.close();
    await close();
  });

  it.runIf(hasEtcd)('etcd', async () => {
    const cluster = await EtcdCluster.start(1);
    onTestFinished(() => cluster.stop());
    const { endpoints } = cluster;
    const url = `etcd://${endpoints.map((endpoint) => new URL(endpoint).host).join(',')}`;
    await lists(etcdLeaseStore({ endpoints, timeout: 30_000 }), url);
  });

  it('MongoDB', async () => {
    const server = await StandIn.start({ isReplicaSet: false });
    onTestFinished(() => server.stop());
    const [connect] = Object.values(mongodbClients);
    const { client, close } = await connect!(server.url);
    const url = new URL(server.url);
    url.pathname = '/app';
    await lists(mongodbLeaseStore({ db: client.db('app'), timeout: 30_000 }), url.href);
    await close();
  });

  it.runIf(process.getBuiltinModule('node:sqlite'))('SQLite', async () => {
    const file = path.join(place.folder, 'leases.db');
    await lists(sqliteLeaseStore({ path: file, timeout: 30_000 }), `sqlite:${file}`);
    expect((await run('list', '--store', `sqlite://${file}`)).code).toBe(0);
  });

  it('a SQLite file that is missing fails, and makes no file', async () => {
    const file = path.join(place.folder, 'missing.db');
    expect((await run('list', '--store', `sqlite:${file}`)).stderr).toContain('there is no SQLite file');
    expect(existsSync(file)).toBe(false);
  });

  it('another URL, or an invalid one, fails without showing it', async () => {
    for (const url of [
      'http://me:secret@host',
      'me:secret@host',
      'postgres://me:secret@ho st',
      'etcd://me:secret@',
    ]) {
      const { code, stderr } = await run('list', '--store', url);
      expect(code).toBe(125);
      expect(stderr).toMatch(/the store's URL/);
      expect(stderr).not.toContain('secret');
    }
  });
});

it('a message shows neither the URL nor its password', () => {
  const url = 'postgres://me:p%40ss@host/db?password=other';
  for (const text of [`bad ${url}`, 'bad p@ss', 'bad p%40ss', 'bad other']) {
    expect(withoutSecrets(text, url)).toBe('bad …');
  }
  expect(withoutSecrets('fine', 'redis://host')).toBe('fine');
});
