import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, chownSync, existsSync, mkdtempSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from './free-port.mjs';

export const POSTGRES_ADVICE =
  'Put postgres and initdb on the PATH. On Debian or Ubuntu: apt-get install postgresql; on macOS: brew install postgresql.';

/** Debian keeps its programs off the PATH. */
const DEBIAN = '/usr/lib/postgresql';

/** The folder of the programs, '' for the PATH; undefined where none is installed. */
function findPrograms() {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : [];
  return ['', ...versions.map((version) => path.join(DEBIAN, version, 'bin'))].find((folder) =>
    ['postgres', 'initdb'].every(
      (name) => spawnSync(path.join(folder, name), ['--version'], { stdio: 'ignore' }).status === 0,
    ),
  );
}

const programs = findPrograms();

export const hasPostgres = programs !== undefined;

/** @param {string} name */
export function postgresProgram(name) {
  if (programs === undefined) throw new Error(POSTGRES_ADVICE);
  return path.join(programs, name);
}

/** It refuses to run as root: then it runs as another user. */
function userOfServer() {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ['postgres', 'nobody']) {
    try {
      const [uid, gid] = ['-u', '-g'].map((what) =>
        Number(execFileSync('id', [what, name], { stdio: 'pipe' })),
      );
      return { uid, gid };
    } catch {
      // No such user.
    }
  }
  throw new Error('PostgreSQL refuses to run as root, and there is no user postgres or nobody');
}

/** Milliseconds in which a server must start, on a busy machine. */
const STARTS_IN = 60_000;
const OPTIONS = ['listen_addresses=127.0.0.1', 'max_connections=200', 'fsync=off'];

/**
 * Runs statements on a separate connection. Returns the rows of the last.
 *
 * @param {number} port
 * @param {string} text
 * @param {unknown[]} [values]
 * @returns {Promise<Record<string, unknown>[]>}
 */
export async function queryAt(port, text, values) {
  const { default: pg } = await import('pg');
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'test', database: 'postgres' });
  client.on('error', () => undefined);
  await client.connect();
  try {
    const results = /** @type {any} */ (await client.query(text, values));
    return Array.isArray(results) ? results[results.length - 1].rows : results.rows;
  } finally {
    await client.end();
  }
}

/**
 * A server for the tests. Its data stays until `stop`. Commits that do not wait for the disk survive the end of the
 * process.
 */
export class PostgresServer {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-postgres-'));
  #user = userOfServer();
  /** @type {readonly string[]} */
  #extra = [];
  port = 0;

  /** @param {...string} extra Settings, such as `synchronous_commit=off`. */
  static async start(...extra) {
    const server = new PostgresServer();
    server.port = await freePort();
    server.#extra = extra;
    server.#makeFolder();
    const args = [
      '--username=test',
      '--auth=trust',
      '--encoding=UTF8',
      '--locale=C',
      '--no-sync',
      '--wal-segsize=1',
    ];
    await server.#run('initdb', ['-D', server.data, ...args]);
    appendFileSync(path.join(server.data, 'pg_hba.conf'), 'host replication all 127.0.0.1/32 trust\n');
    await server.start();
    return server;
  }

  /**
   * A standby of the server at the port, which it copies.
   *
   * @param {number} from
   * @param {number} link The port from which it continues copying: of that server, or of a proxy.
   */
  static async startStandby(from, link) {
    const server = new PostgresServer();
    server.port = await freePort();
    server.#makeFolder();
    const source = ['-h', '127.0.0.1', '-p', String(from), '-U', 'test'];
    await server.#run('pg_basebackup', [
      ...source,
      '-D',
      server.data,
      '-R',
      '-X',
      'stream',
      '-c',
      'fast',
      '--no-sync',
    ]);
    const settings = `primary_conninfo = 'host=127.0.0.1 port=${link} user=test'\nsynchronous_standby_names = ''\n`;
    appendFileSync(path.join(server.data, 'postgresql.auto.conf'), settings);
    await server.start();
    return server;
  }

  get data() {
    return path.join(this.#folder, 'data');
  }

  /** A URL for any client. */
  get url() {
    return `postgres://test@127.0.0.1:${this.port}/postgres`;
  }

  /** Starts it again on the same port, after `kill`. */
  async start() {
    const settings = [...OPTIONS, `unix_socket_directories=${this.#folder}`, ...this.#extra];
    const args = [
      '-D',
      this.data,
      '-p',
      String(this.port),
      ...settings.flatMap((setting) => ['-c', setting]),
    ];
    const end = performance.now() + STARTS_IN;
    // It leads a group of processes, which `signal` reaches together.
    const options = /** @type {const} */ ({
      ...this.#user,
      cwd: this.#folder,
      stdio: 'ignore',
      detached: true,
    });
    while (performance.now() < end) {
      this.#child = spawn(postgresProgram('postgres'), args, options);
      // However this process ends, unless it is killed.
      process.on('exit', this.#end);
      while (this.#child.exitCode === null && performance.now() < end) {
        const asked = ['-h', '127.0.0.1', '-p', String(this.port), '-q', '-U', 'test', '-d', 'postgres'];
        if (await this.#succeeds('pg_isready', asked)) return;
        await delay(20);
      }
      // A killed server's processes may have held its lock file for a moment.
      process.off('exit', this.#end);
      await delay(100);
    }
    throw new Error('postgres did not start');
  }

  /** @param {NodeJS.Signals} name Goes to all its processes. */
  signal(name) {
    if (this.#child?.pid === undefined) return;
    try {
      process.kill(-this.#child.pid, name);
    } catch {
      // They have ended.
    }
  }

  kill() {
    return this.#endBy('SIGKILL');
  }

  async stop() {
    this.signal('SIGCONT');
    // Unlike SIGKILL, it lets the server free its shared memory.
    if (this.#child?.exitCode === null && this.#child.signalCode === null) await this.#endBy('SIGQUIT');
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  /**
   * Runs one of PostgreSQL's programs as the user of the server. Rejects with its errors if it fails.
   *
   * @param {string} name
   * @param {readonly string[]} args
   */
  #run(name, args) {
    return promisify(execFile)(postgresProgram(name), args, { ...this.#user, cwd: this.#folder });
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

  #makeFolder() {
    if (this.#user) chownSync(this.#folder, this.#user.uid, this.#user.gid);
  }

  /**
   * @param {string} name
   * @param {readonly string[]} args
   */
  async #succeeds(name, args) {
    const child = spawn(postgresProgram(name), args, { stdio: 'ignore' });
    const [code] = await once(child, 'exit');
    return code === 0;
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
