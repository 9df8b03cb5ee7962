/** Eight processes change one JSON file, 25 times each. One of them is killed on the way, and another takes its place. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { LockedFile } from 'stripelock/file';

const CHANGES = 25;

/** @param {string} file */
async function main(file) {
  const start = () => {
    const child = fork(new URL(import.meta.url), [file]);
    return { child, exit: once(child, 'exit') };
  };
  const processes = Array.from({ length: 8 }, start);
  const [unlucky] = processes;
  await once(unlucky.child, 'message'); // it has made a change
  unlucky.child.kill('SIGKILL');
  await unlucky.exit;
  processes[0] = start();
  await Promise.all(processes.map(({ exit }) => exit));

  const { changes, by } = await new LockedFile(file).read();
  const sum = Object.values(by).reduce((a, b) => a + b, 0);
  console.log(`${changes} changes, ${sum} by ${Object.keys(by).length} processes`);
  console.log(changes === sum && changes >= 8 * CHANGES ? 'no change was lost' : 'FAILED: changes were lost');
}

/** @param {string} file */
async function work(file) {
  const state = new LockedFile(file, { initial: {}, timeout: 30_000 });
  for (let i = 0; i < CHANGES; i++) {
    await state.update(({ changes = 0, by = {} }) => ({
      changes: changes + 1,
      by: { ...by, [process.pid]: (by[process.pid] ?? 0) + 1 },
    }));
    process.send?.('changed');
  }
  process.disconnect?.();
}

const [given] = process.argv.slice(2);
if (given === undefined) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-state-'));
  await main(path.join(folder, 'state.json'));
  rmSync(folder, { recursive: true });
} else {
  await work(given);
}
