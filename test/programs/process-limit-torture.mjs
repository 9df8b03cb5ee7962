// One of several processes that take permits of a key in two threads, one of which blocks. Each holder in a process that is
// not killed adds a hard link to one file, so the file's number of links, which one call reads, counts these holders. A holder
// that may be killed could leave its link behind. It adds none, and counts itself in addition to the links.

import { linkSync, statSync, unlinkSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread, threadId, Worker, workerData } from 'node:worker_threads';
import { ProcessLock } from 'stripelock/process';
import { randomFrom } from '../workers/random.mjs';

const [folder, limit, rounds, seed] = isMainThread ? process.argv.slice(2) : workerData;
const isVictim = Number(rounds) === 0;
const random = randomFrom(Number(seed) + threadId);
const lock = new ProcessLock({ path: path.join(folder, 'lock'), limit: Number(limit), timeout: 60_000 });
const counted = path.join(folder, 'counted');
const name = `${counted}-${process.pid}-${threadId}`;

if (isMainThread) new Worker(new URL(import.meta.url), { workerData: process.argv.slice(2) });
for (let i = 0; isVictim || i < Number(rounds); i++) {
  const keys = random() < 0.2 ? ['key', 'other'] : ['key'];
  const guard = isMainThread ? await lock.acquire(keys) : lock.acquireSync(keys);
  if (!isVictim) linkSync(counted, name);
  const holders = statSync(counted).nlink - 1 + (isVictim ? 1 : 0);
  if (holders > Number(limit)) throw new Error(`${holders} holders`);
  if (random() < 0.1) await sleep(random() * 3);
  if (!isVictim) unlinkSync(name);
  guard.release();
}
