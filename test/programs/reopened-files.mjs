// Opens files, uses and closes them many times. Prints by how many MiB this process and its address space grew, where the
// system says that. Argument: a folder.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { ProcessLock } from 'stripelock/process';

const MEBI = 2 ** 20;

function sizes() {
  const status = process.platform === 'linux' ? readFileSync('/proc/self/status', 'utf8') : '';
  const reserved = Number(/VmSize:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1024;
  return { resident: process.memoryUsage.rss() / MEBI, reserved };
}

async function use(file) {
  const lock = new ProcessLock({ path: path.join(process.argv[2], file) });
  lock.acquireSync('a').release();
  await lock.close();
}

await use('same');
const before = sizes();
for (let i = 0; i < 1500; i++) await use('same');
for (let i = 0; i < 300; i++) {
  await use(String(i));
  await turn();
}
const after = sizes();
console.log(JSON.stringify([after.resident - before.resident, after.reserved - before.reserved]));
