import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { command } from './redis-wire.mjs';

export const REDIS_ADVICE =
  'Put redis-server (or valkey-server) on the PATH. On Debian or Ubuntu: apt-get install redis-server; on macOS: brew install redis.';

const runs = (command) => spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0;

/** The command that starts a server; undefined where none is installed. */
export const redisCommand = ['redis-server', 'valkey-server'].find(runs);

export async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

/** A server for the tests, without persistence: it is empty after a restart. */
export class RedisServer {
  #child;
  #folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-redis-'));
  #extra;
  port = 0;

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
    this.#child = spawn(redisCommand, all, { stdio: 'ignore' });
    // On every end of this process, unless it is killed.
    process.on('exit', this.#end);
    for (let i = 0; i < 1000; i++) {
      if ((await this.command('PING').catch(() => '')) === '+PONG') return;
      await delay(10);
    }
    throw new Error('redis-server did not start');
  }

  signal(name) {
    this.#child.kill(name);
  }

  async kill() {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
    process.off('exit', this.#end);
  }

  async stop() {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  command(...parts) {
    return command(this.port, ...parts);
  }

  #end = () => void this.#child.kill('SIGKILL');
}
