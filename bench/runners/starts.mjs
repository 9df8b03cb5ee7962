// What a fresh process or a fresh worker pays until its first lock was held. Each sample is a process of its own.

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { median } from 'simple-statistics';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('./starts-program.mjs', import.meta.url));
/** Samples of a round; their median counts. */
const SAMPLES = 5;

/** @type {import('./index.mjs').Runner<import('../workloads/index.mjs').StartsWorkload>} */
export async function measureStarts({ measure }, subject, effort) {
  /** @type {Record<string, number[]>} */
  const samples = {};
  for (let i = 0; i < (effort.name === 'smoke' ? 1 : SAMPLES); i++) {
    const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, measure, subject.name]);
    for (const [name, nanoseconds] of Object.entries(JSON.parse(stdout)))
      (samples[name] ??= []).push(nanoseconds);
  }
  return Object.fromEntries(Object.entries(samples).map(([name, values]) => [name, median(values)]));
}
