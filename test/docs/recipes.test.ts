import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { expect, it } from 'vitest';
import { codeIn } from '../../scripts/docs/markdown.mjs';
import { onEachServer } from '../examples/servers.js';
import { freePort } from '../support/free-port.mjs';
import { runNode } from '../support/programs.js';
import { root, textOf } from './pages.js';

// Each program of docs/recipes.md, as it stands, over each store for which the page has a file.

const programs = codeIn(textOf('docs/recipes.md'), 'js').map(({ code }) => {
  const [, file, what = ''] = /^\/\/ ([\w-]+\.mjs)(?:, (.*))?\n/.exec(code)!;
  return { code, file: file!, what };
});
const stores = programs.filter(({ file }) => file === 'store.mjs');
const recipes = programs.filter(({ file }) => file !== 'store.mjs');
const SERVER = 'server.mjs';

/** The titles of the stores in the page, by their names in the tests. */
const titles: Record<string, string> = {
  redis: 'for Redis',
  postgres: 'for PostgreSQL',
  mysql: 'for MySQL or MariaDB',
  mongodb: 'for MongoDB',
  etcd: 'for etcd',
  sqlite: 'for a SQLite file',
  memory: 'for tests: in memory',
};

it('the page has a file for each store', () => {
  expect(stores.map(({ what }) => Object.values(titles).find((title) => what.startsWith(title)))).toEqual(
    Object.values(titles),
  );
});

/** The programs in a project that has the package installed. */
async function inProject(store: string, run: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-recipes-'));
  try {
    mkdirSync(path.join(folder, 'node_modules'));
    const link = (name: string, target: string): void =>
      symlinkSync(path.join(root, target), path.join(folder, 'node_modules', name), 'junction');
    link('stripelock', '.');
    for (const client of ['ioredis', 'pg', 'mysql2', 'mongodb']) link(client, `node_modules/${client}`);
    for (const { code, file } of recipes) writeFileSync(path.join(folder, file), code);
    const { code } = stores.find(({ what }) => what.startsWith(titles[store]!))!;
    writeFileSync(path.join(folder, 'store.mjs'), code);
    await run(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const printed = (code: string): string =>
  [...code.matchAll(/console\.log\(.*; \/\/ (.+)$/gm)].map(([, text]) => `${text}\n`).join('');

/** `node:sqlite` says that it is experimental. */
const quiet = (store: string): NodeJS.ProcessEnv =>
  store === 'sqlite' ? { NODE_OPTIONS: '--disable-warning=ExperimentalWarning' } : {};

async function runAll(store: string, url: string): Promise<void> {
  await inProject(store, async (folder) => {
    for (const { code, file, what } of recipes) {
      if (file === SERVER || (what !== '' && store !== 'redis')) continue;
      expect(printed(code)).not.toBe('');
      const env = { STORE_URL: url, PORT: String(await freePort()), ...quiet(store) };
      const run = await runNode([file], undefined, env, folder);
      expect({ file, ...run }).toMatchObject({ file, code: 0, stdout: printed(code), stderr: '' });
    }
    await endsWithoutLoss(folder, url);
  });
}

/** Asks again and again over one connection. Returns all answers, once the server takes no more requests. */
async function askOn(port: number, onAnswer: () => void): Promise<string[]> {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const answers: string[] = [];
  try {
    for (;;) {
      const [response] = (await once(http.get({ port, path: '/b', agent }), 'response')) as [
        http.IncomingMessage,
      ];
      answers.push(String(await response.toArray()));
      onAnswer();
    }
  } catch (error) {
    // Reset: the server closed the connection while no request was on it.
    expect(['ECONNREFUSED', 'ECONNRESET']).toContain((error as NodeJS.ErrnoException).code);
    return answers;
  } finally {
    agent.destroy();
  }
}

/**
 * On SIGTERM, the server answers its running requests and ends by itself, also if a client keeps its connection and sends
 * further requests.
 */
async function endsWithoutLoss(folder: string, url: string): Promise<void> {
  const child = spawn(process.execPath, [SERVER], {
    cwd: folder,
    env: { ...process.env, STORE_URL: url, PORT: String(await freePort()) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const ended = once(child, 'exit');
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const port = Number(/\d+/.exec((await lines.next()).value as string)![0]);
    let answers: Promise<string[]> | undefined;
    await new Promise<void>((resolve) => {
      answers = askOn(port, resolve);
    });
    const request = http.get({ port, path: '/a', agent: false, headers: { expect: '100-continue' } });
    const answered = once(request, 'response') as Promise<[http.IncomingMessage]>;
    // The server has it.
    await once(request, 'continue');
    child.kill('SIGTERM');
    const [response] = await answered;
    expect(String(await response.toArray())).toBe('done under a token: true\n');
    expect(new Set(await answers)).toEqual(new Set(['done under a token: true\n']));
    expect((await lines.next()).value).toBe('nothing was lost');
    expect(await ended).toEqual([0, null]);
  } finally {
    child.kill('SIGKILL');
  }
}

it('the recipes do what they say in memory', () => runAll('memory', ''), 120_000);

it.runIf(process.getBuiltinModule('node:sqlite'))(
  'the recipes do what they say over SQLite',
  async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-recipes-'));
    await runAll('sqlite', path.join(folder, 'leases.db'));
    rmSync(folder, { recursive: true });
  },
  120_000,
);

onEachServer('the recipes do what they say', (args) => runAll(args[1]!, args[3]!));
