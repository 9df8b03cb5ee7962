// One of the processes of program.mjs. Each update adds 1 to this process's count in one file or in both, and is then
// acknowledged by a byte in a file of this process alone, which survives a SIGKILL.

import { appendFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { LockedFile } from 'stripelock/file';
import { randomFrom } from '../../workers/random.mjs';

const [index, seed, acknowledged, ...paths] = process.argv.slice(2);
const random = randomFrom(Number(seed));
/** @typedef {{ counts: Record<string, number>, filling: string }} Value */
/** @type {LockedFile<Value>[]} */
const files = paths.map(
  (path) => new LockedFile(path, { timeout: 60_000, initial: { counts: {}, filling: '' } }),
);

/**
 * @param {Value} value
 * @returns {Value}
 */
const added = ({ counts }) => ({
  counts: { ...counts, [index]: (counts[index] ?? 0) + 1 },
  filling: '.'.repeat(random() * 20_000),
});

let ending = false;
process.on('disconnect', () => process.exit(ending ? 0 : 1));
process.on('message', () => (ending = true));

while (!ending) {
  const chosen = Math.floor(random() * files.length);
  const file = files[chosen];
  const draw = random();
  if (draw < 0.2) {
    await LockedFile.update(files, (values) => values.map(added));
    appendFileSync(`${acknowledged}.0`, '.');
    appendFileSync(`${acknowledged}.1`, '.');
  } else {
    if (draw < 0.6) await file.update(added);
    else file.updateSync(added);
    appendFileSync(`${acknowledged}.${chosen}`, '.');
  }
  // Throws if it sees part of a version.
  if (random() < 0.5) await files[1 - chosen].read();
  await sleep(random() * 2);
}
process.disconnect?.();
