// Eight processes update two JSON files, alone and together, while processes are killed at random. At the end every
// acknowledged update is in the files, and no temporary file is left. `writer.mjs` checks that every read parses.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { LockedFile } from 'stripelock/file';
import { randomFrom } from '../../workers/random.mjs';

const writer = fileURLToPath(new URL('writer.mjs', import.meta.url));
const PROCESSES = 8;

/** @type {import('../run.mjs').Program['options']} */
export const options = {};

/** @type {import('../run.mjs').Program['play']} */
export async function play({ milliseconds, seed, violated }) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-files-'));
  const random = randomFrom(seed);
  const paths = [0, 1].map((i) => path.join(folder, `${i}.json`));
  const acknowledged = (/** @type {number} */ index) => path.join(folder, `acknowledged-${index}`);
  const kills = Array.from({ length: PROCESSES }, () => 0);

  const start = (/** @type {number} */ index) => {
    const args = [String(index), String(Math.floor(random() * 2 ** 31)), acknowledged(index), ...paths];
    const child = fork(writer, args, { stdio: ['ignore', 'inherit', 'pipe', 'ipc'] });
    const output = child.stderr?.setEncoding('utf8').toArray();
    const ended = once(child, 'close').then(async ([code, signal]) => {
      if (signal !== 'SIGKILL' && code !== 0) violated(`writer ${index} failed: ${(await output)?.join('')}`);
      return signal;
    });
    return { child, ended };
  };

  try {
    const writers = Array.from({ length: PROCESSES }, (_, index) => start(index));
    const end = performance.now() + milliseconds;
    while (performance.now() < end) {
      await sleep(random() * 300);
      const index = Math.floor(random() * PROCESSES);
      writers[index].child.kill('SIGKILL');
      if ((await writers[index].ended) === 'SIGKILL') kills[index]++;
      writers[index] = start(index);
    }
    for (const { child } of writers) if (child.connected) child.send('end');
    await Promise.all(writers.map(({ ended }) => ended));
    await verify(paths, acknowledged, kills, violated);
    const left = readdirSync(folder).filter(
      (name) => !/^(?:[01]\.json(?:\.lock)?|acknowledged-\d\.[01])$/.test(name),
    );
    if (left.length > 0) violated(`left: ${left.join(', ')}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * @param {readonly string[]} paths
 * @param {(index: number) => string} acknowledged
 * @param {readonly number[]} kills
 * @param {(what: string) => void} violated
 */
async function verify(paths, acknowledged, kills, violated) {
  let updates = 0;
  for (const [i, file] of paths.entries()) {
    /** @type {LockedFile<import('./writer.mjs').Value>} */
    const locked = new LockedFile(file);
    // Writes once more, so that the temporary file of the last writer that was killed is removed.
    const { counts } = await locked.update((value) => value);
    for (let index = 0; index < PROCESSES; index++) {
      const place = `${acknowledged(index)}.${i}`;
      const least = existsSync(place) ? statSync(place).size : 0;
      const count = counts[index] ?? 0;
      updates += count;
      // A process that was killed may have made one update that it did not acknowledge.
      if (count < least || count > least + kills[index]) {
        violated(
          `${file}: writer ${index} acknowledged ${least} updates, was killed ${kills[index]} times, and the file has ${count}`,
        );
      }
    }
  }
  const killed = kills.reduce((sum, count) => sum + count, 0);
  console.log(`${updates} updates, ${killed} kills`);
  if (updates === 0) violated('there was no update');
}
