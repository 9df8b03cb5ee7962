import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from './free-port.mjs';
import { command } from './redis-wire.mjs';

export const REDIS_ADVICE =
  'Put redis-server (or valkey-server) on the PATH. On Debian or Ubuntu: apt-get install redis-server; on macOS: brew install redis.';

const runs = (/** @type {string} */ command) =>
  spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0;

/** The command that starts a server; undefined where none is installed. */
export const redisCommand = ['redis-server', 'valkey-server'].find(runs);

/** Milliseconds in which a condition must become true, on a busy machine. */
const COMES_WITHIN = 30_000;

/**
 * Options of servers that replicate each other. `cutReplication` ends this for a server until it is started again, while
 * other clients stay connected.
 */
export const REPLICATING = ['--user', 'replicator', 'on', '>x', '+psync', '+replconf', '+ping'].concat([
  '--masteruser',
  'replicator',
  '--masterauth',
  'x',
]);

/**
 * From now on no replica gets what this server writes.
 *
 * @param {RedisServer} primary
 */
export async function cutReplication(primary) {
  await primary.command('ACL', 'DELUSER', 'replicator');
  await comes(async () => /connected_slaves:0/.test(await primary.command('INFO', 'replication')));
}

/**
 * Resolves when the server is a replica that is connected.
 *
 * @param {RedisServer} replica
 */
export async function isReplicating(replica) {
  await comes(async () =>
    /role:slave[^]*master_link_status:up/.test(await replica.command('INFO', 'replication')),
  );
}

/** @param {() => Promise<boolean>} condition */
export async function comes(condition) {
  const end = performance.now() + COMES_WITHIN;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`gave up after ${COMES_WITHIN} ms: ${condition}`);
    await delay(10);
  }
}

/** @param {import('node:child_process').ChildProcess | undefined} child */
async function endOf(child) {
  if (child === undefined) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

/** A server for the tests, without persistence: it is empty after a restart. */
export class RedisServer {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  #folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-redis-'));
  /** @type {readonly string[]} */
  #extra = [];
  /** @type {string[]} The path of its configuration, if it has one. */
  #file = [];
  port = 0;

  /** @param {...string} extra Options. */
  static async start(...extra) {
    const server = new RedisServer();
    server.#extra = extra;
    server.port = await freePort();
    await server.start();
    return server;
  }

  /**
   * Starts it with a configuration file, which it may change, as a Sentinel does.
   *
   * @param {string} configuration
   * @param {...string} extra Options.
   */
  static async startWith(configuration, ...extra) {
    const server = new RedisServer();
    server.#extra = extra;
    server.#file = [path.join(server.#folder, 'redis.conf')];
    writeFileSync(server.#file[0], configuration);
    server.port = await freePort();
    await server.start();
    return server;
  }

  /** Starts it again on the same port, after `kill`. */
  async start() {
    const options = ['--bind', '127.0.0.1', '--port', String(this.port), '--save', '', '--appendonly', 'no'];
    const all = [
      ...this.#file,
      ...options,
      '--dir',
      this.#folder,
      '--repl-diskless-sync-delay',
      '0',
      ...this.#extra,
    ];
    if (redisCommand === undefined) throw new Error(REDIS_ADVICE);
    const log = path.join(this.#folder, 'redis.log');
    const output = openSync(log, 'w');
    const child = spawn(redisCommand, all, { stdio: ['ignore', output, output] });
    closeSync(output);
    this.#child = child;
    // However this process ends, unless it is killed.
    process.on('exit', this.#end);
    for (let i = 0; i < 1000 && child.exitCode === null; i++) {
      if ((await this.command('PING').catch(() => '')) === '+PONG') return;
      await delay(10);
    }
    throw new Error(`${redisCommand} did not start:\n${readFileSync(log, 'utf8')}`);
  }

  /** @param {NodeJS.Signals} name */
  signal(name) {
    this.#child?.kill(name);
  }

  async kill() {
    await endOf(this.#child);
    process.off('exit', this.#end);
  }

  async stop() {
    if (this.#child?.exitCode === null && this.#child.signalCode === null) await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** @param {...(string | number | bigint)} parts */
  command(...parts) {
    return command(this.port, ...parts);
  }

  #end = () => void this.#child?.kill('SIGKILL');
}
