// Opens and closes a lock file many times, by a copy of the package. Answers the codes of failures.

import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { parentPort, workerData } from 'node:worker_threads';

const { copy, file, times } = workerData;
const { ProcessLock } = await import(pathToFileURL(path.join(copy, 'dist', 'process.mjs')).href);
const codes = [];
for (let i = 0; i < times; i++) {
  try {
    await new ProcessLock({ path: file }).close();
  } catch (error) {
    codes.push(/** @type {any} */ (error).code);
  }
}
parentPort?.postMessage(codes);
