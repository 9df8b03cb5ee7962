// Waits for a key by a ProcessLock that nothing refers to, until it is the last one of its file. Argument: the path of the file.
import { setTimeout as sleep } from 'node:timers/promises';
import { ProcessLock } from 'stripelock/process';

const path = process.argv[2];
const lock = new ProcessLock({ path });
const guard = lock.acquireSync('a');
const pending = (() => new ProcessLock({ path, timeout: 20_000 }).acquire('a'))();
for (let i = 0; i < 5; i++) {
  globalThis.gc();
  await sleep(5);
}
guard.release();
await lock.close();
(await pending).release();
