// The costs of a fresh process or worker until its first lock was held, and of the command `stripelock run` compared with
// the start of Node. Each sample is a separate process.

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { median } from 'simple-statistics';
import { fileURLToPath } from 'node:url';
import { PACKAGE_FOLDER } from '../support/package-folder.mjs';

const PROGRAM = fileURLToPath(new URL('./starts-program.mjs', import.meta.url));
/** Samples of a round; their median counts. */
const SAMPLES = 5;

/** @type {import('./index.mjs').Runner<import('../workloads/index.mjs').StartsWorkload>} */
export async function measureStarts({ measure }, subject, effort) {
  /** @type {Record<string, number[]>} */
  const samples = {};
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-bench-'));
  try {
    for (let i = 0; i < (effort.name === 'smoke' ? 1 : SAMPLES); i++) {
      const sample =
        measure === 'command' ? await timesOfCommand(folder) : await timesOfProgram(measure, subject.name);
      for (const [name, nanoseconds] of Object.entries(sample)) (samples[name] ??= []).push(nanoseconds);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return Object.fromEntries(Object.entries(samples).map(([name, values]) => [name, median(values)]));
}

/**
 * @param {string} measure
 * @param {string} subject
 * @returns {Promise<Record<string, number>>}
 */
async function timesOfProgram(measure, subject) {
  const { stdout } = await node(PROGRAM, measure, subject);
  return JSON.parse(stdout);
}

/**
 * One process after the other, so that other load affects both.
 *
 * @param {string} folder
 */
async function timesOfCommand(folder) {
  const command = path.join(PACKAGE_FOLDER, 'dist/command.cjs');
  const bareNs = await timeOf('-e', '0');
  const commandNs = await timeOf(command, 'run', '--path', path.join(folder, 'lock'), '--', 'true');
  return { commandNs, bareNs, overBare: commandNs / bareNs };
}

/**
 * Nanoseconds.
 *
 * @param {string[]} args
 */
async function timeOf(...args) {
  const began = process.hrtime.bigint();
  await node(...args);
  return Number(process.hrtime.bigint() - began);
}

const node = (/** @type {string[]} */ ...args) => promisify(execFile)(process.execPath, args);
