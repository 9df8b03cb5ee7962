import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { leaseStoreContract } from 'stripelock/testing';
import { codeIn } from '../../scripts/docs/markdown.mjs';
import { POSTGRES, textOf } from '../docs/pages.js';
import { PATIENT, type PostgresStore } from '../stores/postgres-setup.js';
import { hasPostgres, POSTGRES_ADVICE, PostgresServer } from '../support/postgres-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { startHttp, startRelay } from './neon.mjs';
import { endedWell, endOf, missingPackage, Project, type Changes } from './project.js';

// Each recipe of docs/stores/postgresql.md, through the library that it imports.

const importModule = createRequire(import.meta.url)('./import.cjs') as (
  url: string,
) => Promise<Record<string, unknown>>;

const LONG = 600_000;
const NEON = 'Neon';
const NEON_HTTP = 'Neon over HTTP';

/** The programs of the page, by the name of the library. */
const programs = new Map(
  codeIn(textOf(POSTGRES), 'js').flatMap(({ code }): [string, string][] => {
    const [, name] = /^\/\/ store\.mjs, with (.*)\n/.exec(code) ?? [];
    return name === undefined ? [] : [[name, code]];
  }),
);
programs.set(
  NEON_HTTP,
  programs
    .get(NEON)!
    .replace('{ Pool }', '{ neon }')
    .replace('const pool = new Pool({ connectionString: process.env.STORE_URL });', '')
    .replace('{ pool }', '{ client: neon(process.env.STORE_URL) }')
    .replace('await pool.end();', ''),
);

/** How a program runs its statements in a transaction, which ends with the client. */
const transactions: Record<string, Changes> = {
  Prisma: {
    'export const store': `let commit;
      const begun = new Promise((resolve) => {
        const body = (tx) => new Promise((end) => { commit = end; resolve(tx); });
        prisma.$transaction(body, { timeout: 600_000 }).catch(() => {});
      });
      export const store`,
    'query: (': 'query: async (',
    'prisma.$queryRawUnsafe': '(await begun).$queryRawUnsafe',
    'await prisma.$disconnect()': 'commit(); await prisma.$disconnect()',
  },
  Kysely: {
    'query: (': 'query: async (',
    'export const store': 'const begun = db.startTransaction().execute();\nexport const store',
    'db.executeQuery': '(await begun).executeQuery',
    'await db.destroy()': 'await (await begun).rollback().execute(); await db.destroy()',
  },
  Knex: {
    'query: (': 'query: async (',
    'export const store': 'const begun = knex.transaction();\nexport const store',
    'knex.raw': '(await begun).raw',
    'await knex.destroy()': 'await (await begun).rollback(); await knex.destroy()',
  },
  TypeORM: {
    'export const store':
      'const runner = dataSource.createQueryRunner();\nawait runner.startTransaction();\nexport const store',
    'client: dataSource': 'client: runner.manager',
    'await dataSource.destroy()':
      'await runner.rollbackTransaction(); await runner.release(); await dataSource.destroy()',
  },
};

/** These connect again, or have nothing to end. */
const endless = ['Prisma', NEON_HTTP];

interface Opened {
  readonly store: PostgresStore;
  readonly end: () => Promise<void>;
}

let server: PostgresServer;
let project: Project;
let relay: Awaited<ReturnType<typeof startRelay>>;
let service: Awaited<ReturnType<typeof startHttp>>;
let modules = 0;
let tables = 0;

const newTable = (): string => `test_${++tables}`;

/** Writes a copy of a program, and returns the name of its file. */
function copyOf(name: string, url: string, changes: Changes = {}): string {
  let code = programs.get(name)!;
  for (const [before, after] of Object.entries({
    'process.env.STORE_URL': JSON.stringify(url),
    ...changes,
  })) {
    expect(code).toContain(before);
    code = code.replace(before, () => after);
  }
  if (name.startsWith(NEON)) code = `import './neon-config.mjs';\n${code}`;
  const file = `store-${++modules}.mjs`;
  project.write({ [file]: code });
  return file;
}

async function open(
  name: string,
  { table = newTable(), url = server.url, changes = {} } = {},
): Promise<Opened> {
  // A test that is not about the time limit must not fail by it on a busy machine.
  const options = { 'postgresLeaseStore({': `postgresLeaseStore({ table: '${table}', timeout: 30_000,` };
  const file = copyOf(name, url, { ...options, ...changes });
  return (await importModule(pathToFileURL(path.join(project.folder, file)).href)) as unknown as Opened;
}

/** Opens a store that ends with the test. */
async function opened(...args: Parameters<typeof open>): Promise<PostgresStore> {
  const { store, end } = await open(...args);
  onTestFinished(end);
  return store;
}

if (!hasPostgres) reportMissing('the clients of docs/stores/postgresql.md', 'postgres', POSTGRES_ADVICE);

describe.runIf(hasPostgres && missingPackage === undefined)('the PostgreSQL store', () => {
  beforeAll(async () => {
    server = await PostgresServer.start();
    relay = await startRelay(server.port);
    service = await startHttp();
    project = new Project();
    project.write({
      'neon-config.mjs': `
        import { neonConfig } from '@neondatabase/serverless';
        import webSocketConstructor from 'ws';
        Object.assign(neonConfig, {
          webSocketConstructor,
          wsProxy: '127.0.0.1:${relay.port}/',
          useSecureWebSocket: false,
          pipelineConnect: false,
          fetchEndpoint: '${service.url}',
        });`,
    });
    project.generatePrismaClient();
  });
  afterAll(async () => {
    await project.remove();
    relay.stop();
    service.stop();
    await server.stop();
  });

  it('has a program for each library of its page', () => {
    expect([...programs.keys()]).toEqual(['Prisma', 'Kysely', 'Drizzle', 'Knex', 'TypeORM', NEON, NEON_HTTP]);
  });

  describe.each([...programs.keys()])('through %s', (name) => {
    // Tests run side by side on one server, each in separate tables.
    leaseStoreContract({ describe: describe.concurrent, it, expect }, 'three clients', async () => {
      const table = newTable();
      const clients = await Promise.all([1, 2, 3].map(() => open(name, { table })));
      const [store, ...peers] = clients.map((client) => client.store);
      // The tables are made before the time counts.
      await store!.inspect('key');
      return {
        store: store!,
        peers,
        keepsInfo: true,
        reportsAbandonment: true,
        async dispose() {
          for (const { end } of clients) await end();
        },
      };
    });

    it('does what the page says, and the process ends by itself', async () => {
      const file = copyOf(name, server.url);
      project.write({
        'leases.mjs': `
          import { LeaseManager } from 'stripelock';
          import { end, store } from './${file}';
          const leases = new LeaseManager({ store });
          console.log(await leases.withLease('key', (lease) => lease.token > 0n));
          await leases.close();
          await end();`,
      });
      const program = project.start('leases.mjs', {});
      expect(await endOf(program)).toEqual(endedWell);
      expect(program.lines).toEqual(['true']);
    });

    it('wakes a waiter soon after the release by another client, without polling by the manager', async () => {
      const table = newTable();
      const stores = [await opened(name, { table }), await opened(name, { table })];
      const [one, other] = stores.map((store) => new LeaseManager({ store, ttl: LONG, backoff: PATIENT }));
      const held = await one!.acquire('key');
      const waiting = other!.acquire('key', { timeout: LONG });
      // The server answers it after the waiting acquisition.
      expect(await other!.tryAcquire('key')).toBeUndefined();
      await held.release();
      const started = performance.now();
      await (await waiting).release();
      // Polling would take 20 s.
      expect(performance.now() - started).toBeLessThan(15_000);
    });

    it('grants to one of many where the default isolation is repeatable read', async () => {
      const database = `isolated_${++tables}`;
      await server.query(`CREATE DATABASE ${database}`);
      await server.query(`ALTER DATABASE ${database} SET default_transaction_isolation TO 'repeatable read'`);
      const url = server.url.replace(/postgres$/, database);
      const stores = await Promise.all([1, 2, 3, 4].map(() => opened(name, { table: 'leases', url })));
      for (let round = 0; round < 10; round++) {
        const asked = stores.map((store, i) => store.tryAcquireAll(['a', 'b'], `owner ${i}`, LONG));
        const answers = await Promise.all(asked);
        const granted = answers.findIndex((answer) => typeof answer === 'object');
        expect(answers.filter((answer) => typeof answer === 'object')).toHaveLength(1);
        expect(await stores[0]!.releaseAll(['a', 'b'], `owner ${granted}`)).toEqual([true, true]);
      }
    });

    it('rejects with ERR_LEASE_STORE_DENIED if rights are missing', async () => {
      const table = newTable();
      await (await opened(name, { table })).inspect('key');
      const role = `stranger_${table}`;
      await server.query(`CREATE ROLE ${role} LOGIN`);
      const url = server.url.replace('test@', `${role}@`);
      const store = await opened(name, { table, url });
      await expect(store.tryAcquire('key', 'me', LONG)).rejects.toMatchObject({
        code: 'ERR_LEASE_STORE_DENIED',
        cause: { code: '42501' },
      });
    });
  });

  // Kysely adds no listener to a connection of pg that is in use, so its loss can end the process.
  it.each([...programs.keys()].filter((name) => name !== 'Kysely'))(
    'repeats a release whose idle connections were terminated, through %s',
    async (name) => {
      const database = `lost_${++tables}`;
      await server.query(`CREATE DATABASE ${database}`);
      const url = server.url.replace(/postgres$/, database);
      const store = await opened(name, { table: 'leases', url });
      for (let round = 0; round < 5; round++) {
        await store.tryAcquire('key', 'me', LONG);
        await server.query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${database}'`,
        );
        expect(await store.release('key', 'me')).toBe(true);
      }
    },
  );

  it.each(Object.entries(transactions))(
    'rejects with ERR_LEASE_IN_TRANSACTION in a transaction of %s',
    async (name, changes) => {
      const refused = { code: 'ERR_LEASE_IN_TRANSACTION' };
      const table = newTable();
      const early = await opened(name, { table, changes });
      await expect(early.tryAcquire('key', 'me', LONG)).rejects.toMatchObject(refused);
      const other = await opened(name, { table });
      await other.inspect('key');
      const store = await opened(name, { table, changes });
      await expect(store.tryAcquire('key', 'me', LONG)).rejects.toMatchObject(refused);
      await expect(store.tryAcquireAll(['a', 'b'], 'me', LONG)).rejects.toMatchObject(refused);
    },
  );

  it.each([...programs.keys()].filter((name) => !endless.includes(name)))(
    'rejects with ERR_LEASE_CLIENT_ENDED once the client of %s was ended',
    async (name) => {
      const { store, end } = await open(name, { changes: { 'await store.close();': '' } });
      await store.inspect('key');
      await end();
      const manager = new LeaseManager({ store });
      await expect(manager.acquire('key', { timeout: LONG })).rejects.toMatchObject({
        code: 'ERR_LEASE_CLIENT_ENDED',
      });
      await store.close();
    },
  );
});
