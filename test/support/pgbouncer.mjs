import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from './free-port.mjs';

export const PGBOUNCER_ADVICE = 'On Debian or Ubuntu: apt-get install pgbouncer.';

/** Undefined where it is not installed. Debian keeps it off the PATH of users. */
export const pgbouncerCommand = ['pgbouncer', '/usr/sbin/pgbouncer'].find(
  (command) => spawnSync(command, ['--version'], { stdio: 'ignore' }).status === 0,
);

/**
 * A pooler that hands a session to another client after each transaction.
 *
 * @param {number} port Of the server.
 * @returns {Promise<{ port: number, stop: () => Promise<void> }>}
 */
export async function startPgBouncer(port) {
  if (pgbouncerCommand === undefined) throw new Error(PGBOUNCER_ADVICE);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-pgbouncer-'));
  chmodSync(folder, 0o755);
  const own = await freePort();
  const settings = {
    listen_addr: '127.0.0.1',
    listen_port: own,
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: 'transaction',
    default_pool_size: 3,
    max_prepared_statements: 0,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
  const database = `[databases]\npostgres = host=127.0.0.1 port=${port} user=test dbname=postgres\n`;
  const file = path.join(folder, 'pgbouncer.ini');
  // A version that does not know a setting ignores it only if it is left out.
  writeFileSync(
    file,
    `${database}[pgbouncer]\n${lines.filter((line) => !/^max_prepared/.test(line)).join('\n')}\n`,
  );
  // It refuses to run as root.
  const uid = process.getuid?.() === 0 ? Number(execFileSync('id', ['-u', 'nobody'])) : undefined;
  const child = spawn(pgbouncerCommand, [file], { stdio: 'ignore', uid });
  const end = () => void child.kill('SIGKILL');
  process.on('exit', end);
  for (let i = 0; ; i++) {
    const socket = net.connect(own, '127.0.0.1');
    const connected = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'close').then(() => false),
    ]).catch(() => false);
    socket.destroy();
    if (connected) break;
    if (i > 1000 || child.exitCode !== null) throw new Error('pgbouncer did not start');
    await delay(20);
  }
  return {
    port: own,
    async stop() {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      process.off('exit', end);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
