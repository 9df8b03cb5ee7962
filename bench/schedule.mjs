// The order of measurements: all rounds of a workload before the next workload, and within a round one subject after
// the other. So they alternate A B C A B C …, and other load on the machine affects them equally.

import { fork } from 'node:child_process';
import { runners } from './runners/index.mjs';
import { subjects, whyNot } from './subjects/index.mjs';
import { PACKAGE } from './support/package-folder.mjs';

/** @typedef {import('./effort.mjs').Effort} Effort */
/** @typedef {import('./runners/index.mjs').Figures} Figures */
/** @typedef {import('./subjects/index.mjs').Subject} Subject */
/** @typedef {import('./workloads/index.mjs').Workload} Workload */

/**
 * @template S
 * @typedef {object} RowOf A subject in a workload.
 * @property {S} subject
 * @property {boolean} floor
 * @property {'measured' | 'cannot' | 'failed'} status
 * @property {string | undefined} [why] If it was not measured, or was measured and miscounted.
 * @property {Figures[]} rounds
 * @property {string} [folder] The folder whose build of stripelock it uses, if that is not this checkout's.
 */

/** @typedef {RowOf<Subject>} Row */
/** @typedef {RowOf<string>} MeasuredRow With the subject's name. */

/**
 * The subjects of a workload, its floors first.
 *
 * @param {Workload} workload
 * @returns {Row[]}
 */
export function rowsOf(workload) {
  return [...workload.floors, ...(workload.subjects ?? subjects)].map((subject) => {
    const why = whyNot(subject, workload);
    const floor = workload.floors.includes(subject);
    return { subject, floor, status: why === undefined ? 'measured' : 'cannot', why, rounds: [] };
  });
}

/**
 * @param {Pick<Workload, 'mostRounds'>} workload
 * @param {Pick<Effort, 'rounds'>} effort
 */
export const roundsOf = ({ mostRounds = Infinity }, { rounds }) => Math.min(rounds, mostRounds);

/**
 * Measures a workload.
 *
 * @param {Workload} workload
 * @param {readonly Row[]} rows See {@link rowsOf}.
 * @param {Effort} effort
 * @param {number} iterationsPerNanosecond
 * @param {(subject: string) => void} onRound Called when a round of a subject is over, also for a subject that failed
 *   before.
 * @returns {Promise<MeasuredRow[]>}
 */
export async function measureWorkload(workload, rows, effort, iterationsPerNanosecond, onRound) {
  for (let round = 0; round < roundsOf(workload, effort); round++) {
    // The order is reversed each time, so that of two neighbours neither is always the first.
    for (const row of round % 2 === 0 ? rows : rows.toReversed()) {
      if (row.status === 'cannot') continue;
      if (row.status === 'measured') await measureRow(row, workload, effort, iterationsPerNanosecond);
      onRound(row.subject.name);
    }
  }
  return rows.map((row) => ({ ...row, subject: row.subject.name }));
}

/**
 * @param {Row} row
 * @param {Workload} workload
 * @param {Effort} effort
 * @param {number} iterationsPerNanosecond
 */
async function measureRow(row, workload, effort, iterationsPerNanosecond) {
  try {
    const measure = effort.name === 'smoke' && row.folder === undefined ? inThisProcess : inNewProcess;
    row.rounds.push(await measure(row, workload, effort, iterationsPerNanosecond));
  } catch (caught) {
    const error = /** @type {Error & { figures?: Figures }} */ (caught);
    row.why = error.message;
    if (row.subject.unsound && error.figures !== undefined) row.rounds.push(error.figures);
    else row.status = 'failed';
  }
}

/**
 * A check that it works needs no separate process.
 *
 * @type {typeof inNewProcess}
 */
function inThisProcess({ subject }, workload, effort, iterationsPerNanosecond) {
  const figures = runners[workload.runner](workload, subject, effort, iterationsPerNanosecond);
  return withinLimit(figures, effort.limit, () => {});
}

/**
 * @param {Row} row
 * @param {Workload} workload
 * @param {Effort} effort
 * @param {number} iterationsPerNanosecond
 * @returns {Promise<Figures>}
 */
async function inNewProcess({ subject, folder }, workload, effort, iterationsPerNanosecond) {
  const env = folder === undefined ? process.env : { ...process.env, [PACKAGE]: folder };
  const child = fork(new URL('./cell.mjs', import.meta.url), { serialization: 'advanced', env });
  const figures = new Promise((resolve, reject) => {
    child.once('message', (/** @type {import('./cell.mjs').Reply} */ message) =>
      message.error === undefined
        ? resolve(message.figures)
        : reject(Object.assign(new Error(message.error), { figures: message.figures })),
    );
    child.once('exit', (code, signal) =>
      reject(new Error(`the process ended with ${signal ?? `code ${code}`}`)),
    );
  });
  /** @type {import('./cell.mjs').Request} */
  const request = {
    workload: workload.name,
    subject: subject.name,
    effort: effort.name,
    iterationsPerNanosecond,
  };
  child.send(request);
  try {
    return await withinLimit(figures, effort.limit, () => child.kill('SIGKILL'));
  } finally {
    if (child.connected) child.disconnect();
  }
}

/**
 * @template T
 * @param {Promise<T>} promise
 * @param {number} limit Milliseconds.
 * @param {() => void} stop Ends work that is late.
 * @returns {Promise<T>}
 */
async function withinLimit(promise, limit, stop) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const late = new Promise((_resolve, reject) => {
    timer = setTimeout(() => {
      stop();
      reject(new Error(`did not end within ${limit / 1000} s`));
    }, limit);
  });
  try {
    return await /** @type {Promise<T>} */ (Promise.race([promise, late]));
  } finally {
    clearTimeout(timer);
  }
}
