// What is measured when: all rounds of a workload before the next workload, and within a round one subject after the
// other, so that they alternate A B C A B C … and what else the machine does meanwhile hits them alike.

import { fork } from 'node:child_process';
import { runners } from './runners/index.mjs';
import { subjects, whyNot } from './subjects/index.mjs';

/**
 * @typedef {object} Row A subject in a workload.
 * @property {string} subject
 * @property {boolean} floor
 * @property {'measured' | 'cannot' | 'failed'} status
 * @property {string | undefined} [why] Where it was not measured, or was measured and miscounted.
 * @property {Record<string, number>[]} rounds Figures by metric.
 */

/** The subjects of a workload, its floors first. */
export function rowsOf(workload) {
  return [...workload.floors, ...(workload.subjects ?? subjects)].map((subject) => {
    const why = whyNot(subject, workload);
    const floor = workload.floors.includes(subject);
    return { subject, floor, status: why === undefined ? 'measured' : 'cannot', why, rounds: [] };
  });
}

export const roundsOf = ({ mostRounds = Infinity }, { rounds }) => Math.min(rounds, mostRounds);

/**
 * Measures a workload.
 *
 * @param {import('./workloads/index.mjs').Workload} workload
 * @param {import('./effort.mjs').Effort} effort
 * @param {number} iterationsPerNanosecond
 * @param {(subject: string) => void} onRound Told when a round of a subject is over, also one that failed before.
 * @returns {Promise<Row[]>}
 */
export async function measureWorkload(workload, effort, iterationsPerNanosecond, onRound) {
  const rows = rowsOf(workload);
  for (let round = 0; round < roundsOf(workload, effort); round++) {
    for (const row of rows) {
      if (row.status === 'cannot') continue;
      if (row.status === 'measured') await measureRow(row, workload, effort, iterationsPerNanosecond);
      onRound(row.subject.name);
    }
  }
  return rows.map((row) => ({ ...row, subject: row.subject.name }));
}

async function measureRow(row, workload, effort, iterationsPerNanosecond) {
  try {
    const measure = effort.name === 'smoke' ? inThisProcess : inNewProcess;
    row.rounds.push(await measure(workload, row.subject, effort, iterationsPerNanosecond));
  } catch (error) {
    row.why = error.message;
    if (row.subject.unsound && error.figures !== undefined) row.rounds.push(error.figures);
    else row.status = 'failed';
  }
}

/** To see whether it works needs no process of its own. */
function inThisProcess(workload, subject, effort, iterationsPerNanosecond) {
  return withinLimit(
    runners[workload.runner](workload, subject, effort, iterationsPerNanosecond),
    effort.limit,
    () => {},
  );
}

async function inNewProcess(workload, subject, effort, iterationsPerNanosecond) {
  const child = fork(new URL('./cell.mjs', import.meta.url), { serialization: 'advanced' });
  const figures = new Promise((resolve, reject) => {
    child.once('message', (message) =>
      message.error === undefined
        ? resolve(message.figures)
        : reject(Object.assign(new Error(message.error), { figures: message.figures })),
    );
    child.once('exit', (code, signal) =>
      reject(new Error(`the process ended with ${signal ?? `code ${code}`}`)),
    );
  });
  child.send({
    workload: workload.name,
    subject: subject.name,
    effort: effort.name,
    iterationsPerNanosecond,
  });
  try {
    return await withinLimit(figures, effort.limit, () => child.kill('SIGKILL'));
  } finally {
    if (child.connected) child.disconnect();
  }
}

async function withinLimit(promise, limit, stop) {
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => {
      stop();
      reject(new Error(`did not end within ${limit / 1000} s`));
    }, limit);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
