import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { until } from '../support/waiting.js';

const root = path.resolve(import.meta.dirname, '../..');
const run = promisify(execFile);

/** The first code block in a language, without its comment. */
function statement(language: string): string {
  const text = readFileSync(path.join(root, 'docs/leases.md'), 'utf8');
  const [, code] = new RegExp('```' + language + '\\n([^]*?)```').exec(text)!;
  return code!.replace(/^--.*\n/, '').trim();
}

/** Writes under a token. Returns whether the write was accepted. */
type Write = (token: bigint, body: string) => boolean | Promise<boolean>;

async function expectFenced(write: Write): Promise<void> {
  const manager = new LeaseManager();
  const tokens: bigint[] = [];
  for (let i = 0; i < 3; i++) await manager.withLease('job', ({ token }) => void tokens.push(token));
  const [first, second, third] = tokens as [bigint, bigint, bigint];
  const accepted: boolean[] = [];
  for (const token of [first, first, third, second, third, first]) {
    accepted.push(await write(token, 'the same words'));
  }
  expect(accepted).toEqual([true, true, true, false, true, false]);
  expect(await write(2n ** 63n - 1n, 'the last')).toBe(true);
  expect(await write(9n, 'ancient')).toBe(false);
}

interface Sqlite {
  DatabaseSync: new (path: string) => {
    exec(sql: string): void;
    prepare(sql: string): { run(parameters: object): { changes: number | bigint } };
  };
}

// Each of these tests runs only if its database is available. Node has SQLite from version 22 on.
const sqlite = (process.getBuiltinModule as ((name: string) => Sqlite | undefined) | undefined)?.(
  'node:sqlite',
);
if (sqlite) {
  it('the SQL statement refuses stale tokens, on SQLite', async () => {
    const database = new sqlite.DatabaseSync(':memory:');
    database.exec('CREATE TABLE reports (id TEXT PRIMARY KEY, body TEXT, token BIGINT NOT NULL)');
    database.exec("INSERT INTO reports VALUES ('r', '', 0)");
    const update = database.prepare(statement('sql'));
    await expectFenced((token, body) => Number(update.run({ id: 'r', token, body }).changes) === 1);
  });
}

if (await run('redis-server', ['--version']).then(Boolean, () => false)) {
  it('the Redis script refuses stale tokens, on Redis', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const socket = path.join(folder, 'redis.sock');
    const script = path.join(folder, 'fence.lua');
    writeFileSync(script, statement('lua'));
    const server = spawn('redis-server', [
      '--port',
      '0',
      '--unixsocket',
      socket,
      '--save',
      '',
      '--dir',
      folder,
    ]);
    onTestFinished(() => void server.kill());
    let log = '';
    server.stdout.on('data', (chunk: Buffer) => (log += chunk.toString()));
    await until(() => log.includes(socket), 'the server listens');
    await expectFenced(async (token, body) => {
      const padded = String(token).padStart(20, '0');
      const { stdout } = await run('redis-cli', [
        '-s',
        socket,
        '--eval',
        script,
        'report:1',
        ',',
        padded,
        body,
      ]);
      return stdout.trim() === '1';
    });
  });
}
