import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from './free-port.mjs';

export const MYSQL_ADVICE =
  'Put mariadbd and mariadb-install-db on the PATH. On Debian or Ubuntu: apt-get install mariadb-server; on macOS: brew install mariadb.';

/** Debian keeps the server off the PATH of most users. */
const mariadbd = ['mariadbd', '/usr/sbin/mariadbd'].find(
  (program) => spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0,
);

export const hasMysql = mariadbd !== undefined;

/** Without this option, it refuses to run as root. */
const asRoot = process.getuid?.() === 0 ? ['--user=root'] : [];

/** Milliseconds in which a server must start, on a busy machine. */
const STARTS_IN = 60_000;

/** Leases must outlast the end of the process, but not a failure of the machine. */
const OPTIONS = [
  '--bind-address=127.0.0.1',
  '--skip-name-resolve',
  '--max-connections=500',
  '--innodb-flush-log-at-trx-commit=2',
  '--innodb-buffer-pool-size=32M',
  '--innodb-log-file-size=8M',
];

/** The user of the tests, who may do everything. */
const USER = `CREATE DATABASE IF NOT EXISTS test;
CREATE USER IF NOT EXISTS test@'127.0.0.1' IDENTIFIED BY 'test';
GRANT ALL ON *.* TO test@'127.0.0.1' WITH GRANT OPTION;
`;

/**
 * Runs statements on a separate connection. Returns the rows, or the result, of the last.
 *
 * @param {number} port
 * @param {string} text
 * @param {unknown[]} [values]
 * @returns {Promise<any>}
 */
export async function queryAt(port, text, values) {
  const { default: mysql } = await import('mysql2/promise');
  const client = await mysql.createConnection({ uri: urlOf(port), multipleStatements: true });
  client.on('error', () => undefined);
  try {
    const [results] = await client.query(text, values);
    const isList = Array.isArray(results) && results.some((result) => !isRow(result));
    return isList ? results[results.length - 1] : results;
  } finally {
    client.destroy();
  }
}

/** @param {unknown} result Of a statement, or one row. */
const isRow = (result) => result?.constructor?.name === 'Object';

/** @param {number} port */
const urlOf = (port) => `mysql://test:test@127.0.0.1:${port}/test`;

/** A server for the tests: MariaDB. Its data stays until `stop`. */
export class MysqlServer {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-mysql-'));
  /** @type {readonly string[]} */
  #extra = [];
  port = 0;

  /** @param {...string} extra Options, such as `--innodb-flush-log-at-trx-commit=1`. */
  static async start(...extra) {
    const server = new MysqlServer();
    server.port = await freePort();
    server.#extra = extra;
    writeFileSync(server.#in('user.sql'), USER);
    mkdirSync(server.#in('tmp'));
    const options = [
      '--auth-root-authentication-method=normal',
      '--skip-test-db',
      '--innodb-log-file-size=8M',
    ];
    await promisify(execFile)('mariadb-install-db', [...server.#places(), ...options]);
    await server.start();
    return server;
  }

  /** A URL for any client. */
  get url() {
    return urlOf(this.port);
  }

  /** Starts it again on the same port, after `kill`. */
  async start() {
    const files = [`--socket=${this.#in('socket')}`, `--pid-file=${this.#in('pid')}`];
    const own = [...files, `--port=${this.port}`, `--init-file=${this.#in('user.sql')}`];
    const args = [...this.#places(), ...own, ...OPTIONS, ...this.#extra];
    const child = spawn(/** @type {string} */ (mariadbd), args, { stdio: 'ignore' });
    this.#child = child;
    // However this process ends, unless it is killed.
    process.on('exit', this.#end);
    const end = performance.now() + STARTS_IN;
    while (child.exitCode === null && performance.now() < end) {
      try {
        await this.query('SELECT 1');
        return;
      } catch {
        await delay(20);
      }
    }
    throw new Error('mariadbd did not start');
  }

  /** @param {NodeJS.Signals} name */
  signal(name) {
    this.#child?.kill(name);
  }

  kill() {
    return this.#endBy('SIGKILL');
  }

  async stop() {
    await this.#endBy('SIGKILL');
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  /**
   * See `queryAt`.
   *
   * @param {string} text
   * @param {unknown[]} [values]
   */
  query(text, values) {
    return queryAt(this.port, text, values);
  }

  /** Ends the connections of all clients. */
  async terminate() {
    const others =
      "SELECT id FROM information_schema.processlist WHERE user = 'test' AND id <> CONNECTION_ID()";
    for (const { id } of await this.query(others)) {
      // It may have ended.
      await this.query(`KILL ${id}`).catch(() => undefined);
    }
  }

  /** @param {string} name */
  #in(name) {
    return path.join(this.#folder, name);
  }

  /** A server that starts removes the temporary files of others in the same folder. */
  #places() {
    return ['--no-defaults', ...asRoot, `--datadir=${this.#in('data')}`, `--tmpdir=${this.#in('tmp')}`];
  }

  /** @param {NodeJS.Signals} signal */
  async #endBy(signal) {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    this.signal(signal);
    await ended;
    process.off('exit', this.#end);
  }

  #end = () => void this.signal('SIGKILL');
}
