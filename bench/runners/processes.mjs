// What several processes do with one key of a lock. Each is a `processes-worker.mjs`.

import { fork } from 'node:child_process';
import { closeSync, openSync, readFileSync, readSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openLock } from '../subjects/index.mjs';
import { Waits } from '../support/waits.mjs';
import { Miscount } from './miscount.mjs';
import { told } from './told.mjs';

/**
 * @typedef {import('../workloads/index.mjs').ProcessesWorkload} Workload
 * @typedef {import('../subjects/index.mjs').Subject} Subject
 * @typedef {import('../effort.mjs').Effort} Effort
 * @typedef {import('node:child_process').ChildProcess} Child
 */

const KEY = 'account:1234567';
/** This many times as long as threads do: processes take longer to get going. */
const LONGER = 6;
/** Milliseconds that the next holder has been waiting when the key is released, or its holder killed. */
const HEAD = 5;

/** @type {Record<Workload['measure'], (workload: Workload, subject: Subject, effort: Effort) => Promise<import('./index.mjs').Figures>>} */
const measures = { grants, released, killed, waiting };

/** @type {import('./index.mjs').Runner<Workload>} */
export const measureProcesses = (workload, subject, effort) =>
  measures[workload.measure](workload, subject, effort);

/** Those that are running. */
class Children {
  /** @type {Child[]} */
  #all = [];

  /**
   * Resolves once it has opened the lock.
   *
   * @param {Subject} subject
   * @param {unknown} shared
   * @param {Workload['how']} how
   */
  async start(subject, shared, how) {
    const [child] = await this.startMany(1, subject, shared, how);
    return /** @type {Child} */ (child);
  }

  /**
   * @param {number} count
   * @param {Subject} subject
   * @param {unknown} shared
   * @param {Workload['how']} how
   * @param {number} [threads]
   */
  async startMany(count, subject, shared, how, threads = 1) {
    const data = JSON.stringify({ subject: subject.name, shared, how, key: KEY, threads });
    const children = Array.from({ length: count }, () =>
      fork(new URL('./processes-worker.mjs', import.meta.url), [data], { stdio: 'inherit' }),
    );
    this.#all.push(...children);
    await Promise.all(children.map((child) => told(child, 'ready')));
    return children;
  }

  end() {
    for (const child of this.#all) child.kill('SIGKILL');
  }
}

/**
 * @param {Child} child
 * @param {object} order
 * @param {string} answer
 */
function order(child, order, answer) {
  const answered = told(child, answer);
  child.send(order);
  return answered;
}

/**
 * All want the key again and again, and count under it in a file.
 *
 * @type {(typeof measures)['grants']}
 */
async function grants({ how, processes, threads }, subject, effort) {
  const shared = subject.create({ stripes: 1 });
  const file = path.join(String(shared), 'counts');
  writeFileSync(file, new Float64Array(2));
  const children = new Children();
  try {
    const all = await children.startMany(
      effort.name === 'smoke' ? Math.min(processes, 2) : processes,
      subject,
      shared,
      how,
      threads,
    );
    const times = { warmup: LONGER * effort.warmup, window: LONGER * effort.window };
    const reports = (
      await Promise.all(all.map((child) => order(child, { count: { file, ...times } }, 'counted')))
    ).flat();
    const [begun, ended] = countsIn(file);
    const counted = sum(reports.map(({ all }) => all));
    const done = reports.map(({ done }) => done);
    const mean = sum(done) / done.length;
    const figures = {
      opsPerSecond: (sum(done) * 1000) / times.window,
      p50: Math.max(...reports.map(({ p50 }) => p50)),
      p99: Math.max(...reports.map(({ p99 }) => p99)),
      p999: Math.max(...reports.map(({ p999 }) => p999)),
      max: Math.max(...reports.map(({ max }) => max)),
      minShare: Math.min(...done) / mean,
      maxShare: Math.max(...done) / mean,
    };
    if (reports.some(({ torn }) => torn)) throw new Miscount('somebody saw half-done work', figures);
    if (begun !== ended || begun !== counted)
      throw new Miscount(`of ${counted} writes ${Math.min(begun, ended)} were kept`, figures);
    return figures;
  } finally {
    children.end();
  }
}

/** @param {readonly number[]} values */
const sum = (values) => values.reduce((a, b) => a + b, 0);

/** @param {string} file */
function countsIn(file) {
  const counts = new Float64Array(2);
  const opened = openSync(file, 'r');
  readSync(opened, counts, 0, 16, 0);
  closeSync(opened);
  return counts;
}

/**
 * One holds the key and another waits for it, in turns that this process tells them.
 *
 * @type {(typeof measures)['released']}
 */
async function released({ how }, subject, effort) {
  const shared = subject.create({ stripes: 1 });
  const children = new Children();
  const waits = new Waits();
  try {
    const giver = await children.start(subject, shared, how);
    const taker = await children.start(subject, shared, how);
    for (let i = 0; i < (effort.name === 'smoke' ? 2 : 40); i++) {
      await order(giver, { take: true }, 'held');
      const granted = order(taker, { takeAndGive: true }, 'grantedAt');
      await sleep(HEAD);
      const releasedAt = await order(giver, { give: true }, 'releasedAt');
      const nanoseconds = Number(BigInt(await granted) - BigInt(releasedAt));
      if (nanoseconds < 0) throw new Error('the key was taken before it was given back');
      waits.record(nanoseconds / 1e6);
    }
  } finally {
    children.end();
  }
  const { p50, p99, p999, max } = waits.percentiles();
  return { handOver50: p50, handOver99: p99, handOver999: p999, handOverMax: max };
}

/** @type {(typeof measures)['killed']} */
async function killed({ how }, subject, effort) {
  const shared = subject.create({ stripes: 1 });
  const children = new Children();
  const waits = new Waits();
  try {
    const taker = await children.start(subject, shared, how);
    for (let i = 0; i < (effort.name === 'smoke' ? 1 : 15); i++) {
      const holder = await children.start(subject, shared, how);
      await order(holder, { take: true }, 'held');
      const granted = order(taker, { takeAndGive: true }, 'grantedAt');
      // At any phase of a pause between two looks.
      await sleep(60 + 40 * Math.random());
      const at = process.hrtime.bigint();
      holder.kill('SIGKILL');
      waits.record(Number(BigInt(await granted) - at) / 1e6);
    }
  } finally {
    children.end();
  }
  const { p50, max } = waits.percentiles();
  return { deadHolder50: p50, deadHolderMax: max };
}

/**
 * Milliseconds after which all wait at their usual pace, and for which they are watched. For so long a new process of Node is
 * busy with itself.
 */
const SETTLES = 20_000;
const WATCHED = 4000;

/**
 * The processor time of many that wait for a key.
 *
 * @type {(typeof measures)['waiting']}
 */
async function waiting({ how, processes }, subject, effort) {
  const smoke = effort.name === 'smoke';
  const shared = subject.create({ stripes: 1 });
  const children = new Children();
  try {
    const lock = await openLock(subject, shared);
    const held = lock.acquireSync(KEY);
    const all = await children.startMany(smoke ? 2 : processes, subject, shared, how);
    for (const child of all) child.send({ takeAndGive: true });
    await sleep(smoke ? 20 : SETTLES);
    const before = sum(all.map(({ pid }) => ticksOf(pid)));
    const began = performance.now();
    await sleep(smoke ? 20 : WATCHED);
    const ticks = sum(all.map(({ pid }) => ticksOf(pid))) - before;
    const seconds = (performance.now() - began) / 1000;
    lock.release(held);
    return { processorShare: ticks / TICKS_A_SECOND / seconds };
  } finally {
    children.end();
  }
}

/** Of Linux, wherever Node runs. */
const TICKS_A_SECOND = 100;

/**
 * Processor time of user and system.
 *
 * @param {number | undefined} pid
 */
function ticksOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}
