// Processes with two threads each change values of an ordinary file under a `ProcessLock`, while others of them are killed,
// stopped and continued, and threads of them are terminated. `holder.mjs` says what each of them checks: no lost update, tokens
// that rise, and that every death of a holder is reported. This program checks that each makes progress and gets its share.
//
//   --processes 6     how many run at a time
//   --history         also writes down each exclusive grant, about 100 MB a minute, and checks what the checker of faults does
//   --damage page     also writes rubbish over the shared page, behind its head; deaths may go untold then
//   --damage header   also writes rubbish into the header; newcomers are refused until another process has restored it
//   --damage size     also cuts the file; who touches the page just then dies of it

import { fork } from 'node:child_process';
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { randomFrom } from '../../workers/random.mjs';
import { check } from '../faults/checker.mjs';
import { readHistories } from '../faults/history.mjs';
import { BLOCK_BYTES, KEYS, sumsOf } from './values.mjs';

const holder = fileURLToPath(new URL('holder.mjs', import.meta.url));
/** The head of a lock file ends here. */
const HEAD_BYTES = 4096;
/** A thread must get this part of the mean of threads like it. In short runs, starts after kills and crashes make shares uneven. */
const LEAST_SHARE = 0.1;
const ENOUGH = 20_000;
/** Longer than any of them may be stopped, or wait. */
const HANGS = 20_000;

/** @type {import('../run.mjs').Program['options']} */
export const options = {
  processes: { type: 'string', default: '6' },
  history: { type: 'boolean' },
  damage: { type: 'string' },
};

/** @type {import('../run.mjs').Program['play']} */
export async function play({ milliseconds, seed, violated }, { processes = '6', history, damage }) {
  const random = randomFrom(seed);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-processes-'));
  const lock = path.join(folder, 'lock');
  const values = path.join(folder, 'values');
  const histories = path.join(folder, 'histories');
  mkdirSync(histories);
  const file = openSync(values, 'w+');
  writeSync(file, Buffer.alloc(BLOCK_BYTES * KEYS));

  const counts = { grants: 0, abandoned: 0, kills: 0, stops: 0, crashes: 0 };
  /** @type {number[]} How many grants the threads of each number had. Even ones wait in event loops, odd ones block. */
  const shares = [];
  let ending = false;
  /** @typedef {{ child: import('node:child_process').ChildProcess, heard: number, killed: boolean, gone: Promise<void> }} Holder */
  /** @returns {Holder} */
  const start = (/** @type {number} */ index) => {
    const child = fork(holder, [
      lock,
      values,
      String(index),
      String(Math.floor(random() * 2 ** 31)),
      damage ?? '',
      history ? path.join(histories, 'of') : '',
    ]);
    /** @type {Holder} */
    const started = { child, heard: performance.now(), killed: false, gone: Promise.resolve() };
    child.on(
      'message',
      (/** @type {{ thread: number, grants: number, abandoned: number, violations: string[] }} */ said) => {
        if (said.grants > 0) started.heard = performance.now();
        shares[said.thread] = (shares[said.thread] ?? 0) + said.grants;
        counts.grants += said.grants;
        counts.abandoned += said.abandoned;
        for (const what of said.violations) violated(what);
      },
    );
    started.gone = new Promise((resolve) =>
      child.on('exit', (code, signal) => {
        const cut = damage === 'size' && signal === 'SIGBUS';
        if (cut) counts.crashes++;
        if (!started.killed && !cut && (code !== 0 || signal !== null || !ending)) {
          violated(`a process ended by itself: code ${code}, signal ${signal}`);
        }
        resolve();
        if (!ending) all[index] = start(index);
      }),
    );
    return started;
  };
  /** @type {Holder[]} */
  const all = [];
  for (let index = 0; index < Number(processes); index++) all.push(start(index));

  const end = performance.now() + milliseconds;
  while (performance.now() < end) {
    await sleep(random() * 120);
    const one = all[Math.floor(random() * all.length)];
    if (one === undefined) continue;
    if (random() < 0.12) {
      one.killed = true;
      one.child.kill('SIGKILL');
      counts.kills++;
    } else {
      one.child.kill('SIGSTOP');
      counts.stops++;
      void sleep(random() * 150).then(() => one.child.kill('SIGCONT'));
    }
    if (damage !== undefined && random() < 0.3) harm(lock, damage, random);
    for (const { heard, child } of all) {
      if (performance.now() - heard > HANGS) {
        violated(`process ${child.pid} made no progress for ${HANGS / 1000} s`);
        return;
      }
    }
  }
  ending = true;
  for (const { child } of all) child.kill('SIGCONT');
  await sleep(200);
  for (const { child } of all) if (child.connected) child.send('end');
  const hang = setTimeout(() => {
    violated('a process does not end');
    for (const one of all) one.child.kill('SIGKILL');
  }, HANGS);
  await Promise.all(all.map(({ gone }) => gone));
  clearTimeout(hang);

  for (const kind of [0, 1]) {
    const own = Array.from({ length: Number(processes) }, (_, index) => shares[2 * index + kind] ?? 0);
    const mean = own.reduce((sum, grants) => sum + grants, 0) / own.length;
    if (mean > ENOUGH && Math.min(...own) < LEAST_SHARE * mean)
      violated(`shares are uneven: ${own.join(', ')}`);
  }
  for (let key = 0; key < KEYS; key++) {
    const block = Buffer.alloc(BLOCK_BYTES);
    readSync(file, block, 0, BLOCK_BYTES, key * BLOCK_BYTES);
    const { dirty, counter, sum } = sumsOf(block);
    if (!dirty && counter !== sum)
      violated(`key ${key} was changed ${sum} times, and its counter is ${counter}`);
  }
  const entries = readHistories(readdirSync(histories).map((name) => path.join(histories, name)));
  for (const what of check(entries, { writes: [] }, [])) violated(what);
  closeSync(file);
  rmSync(folder, { recursive: true });
  console.log(JSON.stringify(counts));
}

/**
 * @param {string} lock
 * @param {string} damage
 * @param {() => number} random
 */
function harm(lock, damage, random) {
  let file;
  try {
    file = openSync(lock, 'r+');
  } catch {
    return; // Nobody has made it yet.
  }
  if (damage === 'size') ftruncateSync(file, HEAD_BYTES);
  else if (damage === 'header') {
    const rubbish = Buffer.from(Array.from({ length: 8 }, () => Math.floor(random() * 256)));
    writeSync(file, rubbish, 0, rubbish.length, Math.floor(random() * 1096));
  } else {
    const rubbish = Buffer.from(Array.from({ length: 300_000 }, () => Math.floor(random() * 256)));
    writeSync(file, rubbish, 0, rubbish.length, HEAD_BYTES);
  }
  closeSync(file);
}
