// Three processes, as on three machines, stand for one election. The leader is killed, and another one leads when its
// lease has expired. The second one is stopped, like a suspended machine, and the third one leads. On SIGTERM the third
// one resigns, and the second one, which continues by then, leads at once.
//
//   node examples/leader/leader.mjs [--store sqlite] [--ttl 2000] [--url redis://127.0.0.1:6379]

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Command, Option } from 'commander';
import { openStore, storeNames } from '../cron/stores/all.mjs';

const options = new Command('leader')
  .addOption(new Option('--store <name>', 'where the leases are').choices(storeNames).default('sqlite'))
  .option('--ttl <milliseconds>', 'of the lease of the leader', Number, 2000)
  .option('--url <url>', 'of the server')
  .parse()
  .opts();

const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-leader-'));
const settings = {
  ...options,
  file: path.join(folder, 'leader.db'),
  prefix: `leader-${process.pid}:`,
  nights: 0,
};
const candidates = new Map();
let elected;
const nextLeader = () => new Promise((resolve) => (elected = resolve));

/** Resolves when there is a leader. Prints what happened, and how long there was none. */
async function until(ends, what) {
  const leader = nextLeader();
  await ends();
  const since = performance.now();
  const { name, token } = await leader;
  console.log(
    `${what}: ${name} leads under token ${token}, after ${Math.round(performance.now() - since)} ms`,
  );
  return candidates.get(name);
}

try {
  // Makes what the store needs, before all of them do, and tells what is missing.
  await (await openStore(settings)).close();
  for (const name of ['process 1', 'process 2', 'process 3']) {
    const child = fork(new URL('candidate.mjs', import.meta.url), [JSON.stringify({ ...settings, name })]);
    child.on('message', (message) => message.token && elected(message));
    candidates.set(name, { name, child, ended: once(child, 'exit') });
  }
  const end = async ({ name, child, ended }, signal) => {
    child.kill(signal);
    await ended;
    candidates.delete(name);
  };
  const first = await until(() => undefined, 'the first election');
  const second = await until(() => end(first, 'SIGKILL'), `${first.name} was killed`);
  const third = await until(() => second.child.kill('SIGSTOP'), `${second.name} was stopped`);
  const continued = once(second.child, 'message');
  second.child.kill('SIGCONT');
  const [{ lost }] = await continued;
  console.log(`${lost} goes on, and does not lead any more`);
  const last = await until(() => end(third, 'SIGTERM'), `${third.name} has resigned`);
  await end(last, 'SIGTERM');
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  for (const { child } of candidates.values()) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
}
