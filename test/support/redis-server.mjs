import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
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
  port = 0;

  /** @param {...string} extra Options. */
  static async start(...extra) {
    const server = new RedisServer();
    server.#extra = extra;
    server.port = await freePort();
    await server.start();
    return server;
  }

  /** Starts it again on the same port, after `kill`. */
  async start() {
    const options = ['--bind', '127.0.0.1', '--port', String(this.port), '--save', '', '--appendonly', 'no'];
    const all = [...options, '--dir', this.#folder, '--repl-diskless-sync-delay', '0', ...this.#extra];
    if (redisCommand === undefined) throw new Error(REDIS_ADVICE);
    this.#child = spawn(redisCommand, all, { stdio: 'ignore' });
    // However this process ends, unless it is killed.
    process.on('exit', this.#end);
    for (let i = 0; i < 1000; i++) {
      if ((await this.command('PING').catch(() => '')) === '+PONG') return;
      await delay(10);
    }
    throw new Error('redis-server did not start');
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
