// Forgets a guard of a traced ProcessLock. Argument: the path of the file.
import { setTimeout as sleep } from 'node:timers/promises';
import { ProcessLock } from 'stripelock/process';

const lock = new ProcessLock({ path: process.argv[2], name: 'mine', trace: true });
(() => void lock.acquireSync('a'))();
while (lock.isLocked('a')) {
  globalThis.gc();
  await sleep(1);
}
