import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hasPostgres, POSTGRES_ADVICE, PostgresServer } from '../support/postgres-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { endedWell, endOf, missingPackage, prismaFiles, Project } from './project.js';

// The migrations of docs/frameworks.md: each of several instances migrates an empty database as it starts. A migration that ran
// twice would fail, as its table exists.

const INSTANCES = 4;
/** A timer of Prisma's engine keeps each command from ending for ten seconds. */
const FEW = 2;
/** Milliseconds: commands of Prisma, one after the other, beside other tests. */
const LIMIT = 240_000;
/** Long enough that the others find it running. */
const SLOWLY = 'SELECT pg_sleep(0.5)';
const TABLE = 'CREATE TABLE accounts (id integer PRIMARY KEY)';
const ROW = 'INSERT INTO accounts VALUES (1)';
const all = `${SLOWLY}; ${TABLE}; ${ROW};`;

/** For each program of the page: the migration as its tool wants it. */
const tools: Record<string, Record<string, string>> = {
  'drizzle.mjs': {
    'drizzle/0000_accounts.sql': [SLOWLY, TABLE, ROW].join(';\n--> statement-breakpoint\n'),
    'drizzle/meta/_journal.json': JSON.stringify({
      version: '7',
      dialect: 'postgresql',
      entries: [{ idx: 0, version: '7', when: 1, tag: '0000_accounts', breakpoints: true }],
    }),
  },
  'knex.mjs': {
    'migrations/1_accounts.mjs': `
      export const up = (knex) => knex.raw('${all}');
      export const down = () => {};`,
  },
  'typeorm.mjs': {
    'typeorm/1-accounts.mjs': `
      export class Accounts1700000000000 {
        up(runner) { return runner.query('${all}'); }
        down() {}
      }`,
  },
  'prisma.mjs': {
    ...prismaFiles('prisma-client'),
    'prisma/migrations/migration_lock.toml': 'provider = "postgresql"',
    'prisma/migrations/20260101000000_accounts/migration.sql': all,
  },
};

let server: PostgresServer;
let project: Project;
let databases = 0;

/** The environment of programs that migrate a new database. */
async function newDatabase(): Promise<{ DATABASE_URL: string }> {
  const name = `recipe${++databases}`;
  await server.query(`CREATE DATABASE ${name}`);
  return { DATABASE_URL: server.url.replace(/postgres$/, name) };
}

if (!hasPostgres) reportMissing('migrations', 'postgres', POSTGRES_ADVICE);

describe.runIf(hasPostgres && missingPackage === undefined)('the instances of', () => {
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server.stop());
  beforeEach(() => {
    project = new Project();
  });
  afterEach(() => project.remove());

  it.each(Object.entries(tools))(
    '%s migrate once',
    async (file, files) => {
      project.write(files);
      const env = await newDatabase();
      const instances = Array.from({ length: file === 'prisma.mjs' ? FEW : INSTANCES }, () =>
        project.start(file, env),
      );
      expect(await Promise.all(instances.map(endOf))).toEqual(instances.map(() => endedWell));
    },
    LIMIT,
  );

  it('knex.mjs continue after one of them was killed while it migrated', async () => {
    project.change('migrations.mjs', { 'ttl: 30_000': 'ttl: 1_000' });
    project.write(tools['knex.mjs']!);
    project.write({
      'migrations/2_slow.mjs': `
        export const up = async () => {
          console.log('migrates');
          if (process.env.HANGS) await new Promise(() => setInterval(() => {}, 1000));
        };
        export const down = () => {};`,
    });
    const env = await newDatabase();
    const killed = project.start('knex.mjs', { ...env, HANGS: '1' });
    await expect.poll(() => killed.printed(/^migrates$/)).toHaveLength(1);
    killed.signal('SIGKILL');
    const next = project.start('knex.mjs', env);
    expect(await endOf(next)).toEqual(endedWell);
    expect(next.lines).toEqual(['migrates']);
  });
});
