import { describe } from 'vitest';
import { temporaryFile } from '../support/sqlite.js';
import { onNode20 } from '../support/sqlite-drivers.mjs';
import { onTestFinished } from 'vitest';
import { describeBackground } from '../leases/background.js';

const TTL = 900;

// The store opens a path with node:sqlite, which Node 20 does not have.
describe.skipIf(onNode20)('renewal in the background, in SQLite', () => {
  describeBackground(() => {
    const { file, remove } = temporaryFile();
    onTestFinished(remove);
    return { path: file };
  }, TTL);
});
