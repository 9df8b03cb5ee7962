// The same nightly job in several processes, as on several machines behind one crontab: each night one of them runs it.
// On the first night the one that runs it crashes half-way. Another takes over after its lease has expired.
//
//   node examples/cron/cron.mjs [--store sqlite] [--processes 3] [--nights 3] [--url redis://127.0.0.1:6379]

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Command, Option } from 'commander';
import { openStore, storeNames } from './stores/all.mjs';

const whole = (text) => Math.max(1, Math.trunc(Number(text)) || 1);
const options = new Command('cron')
  .addOption(new Option('--store <name>', 'where the leases are').choices(storeNames).default('sqlite'))
  .option('--processes <count>', 'how many have the job in their crontab', whole, 3)
  .option('--nights <count>', 'how many nights to run for', whole, 3)
  .option('--night <milliseconds>', 'how long a night is', whole, 1000)
  .option('--url <url>', 'of the server')
  .parse()
  .opts();

const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-cron-'));
const settings = {
  ...options,
  file: path.join(folder, 'cron.db'),
  prefix: `cron-${process.pid}:`,
  start: Date.now() + 500,
};

try {
  const { journal, close } = await openStore(settings);
  const instance = new URL('instance.mjs', import.meta.url);
  // At least two, because another process must be able to take over.
  const processes = Array.from({ length: Math.max(2, options.processes) }, (_, i) =>
    fork(instance, [JSON.stringify({ ...settings, name: `process ${i + 1}` })]),
  );
  await Promise.all(processes.map((child) => once(child, 'exit')));
  for (const { night, author, token } of await journal.read()) {
    console.log(`night ${night}: done by ${author} under token ${token}`);
  }
  await close();
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
