// A file of JSON that several processes change: each operation locks it, reads it, and replaces it by a new version on the disk.

import { closeSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync, writeSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { hasLockedFile, loadFile } from '../support/package.mjs';
import { barePair, makeFolder, RETRIES } from './process-locks.mjs';

/** @type {(name: string) => any} */
const load = createRequire(import.meta.url);

/** Milliseconds. Long enough never to run out. */
const TIMEOUT = 120_000;

/** About 1 KiB. */
const STATE = { updates: 0, text: 'x'.repeat(1000) };
/** @typedef {typeof STATE} State */

/** A folder with the file. */
function create() {
  const folder = makeFolder();
  writeFileSync(stateIn(folder), JSON.stringify(STATE));
  return folder;
}

/** @param {string} folder */
const stateIn = (folder) => path.join(folder, 'state.json');

/** @param {State} state */
const updated = ({ updates, ...rest }) => ({ updates: updates + 1, ...rest });

/** @type {import('./index.mjs').Subject} */
const lockedFile = {
  name: 'stripelock LockedFile',
  packages: ['stripelock'],
  can: ['run'],
  // A package that is compared with may be older than the class.
  limit: () => (hasLockedFile() ? undefined : 'has no LockedFile'),
  create,
  open: async (folder) => {
    const { LockedFile } = await loadFile();
    /** @type {import('stripelock/file').LockedFile<State>} */
    const file = new LockedFile(stateIn(folder), { timeout: TIMEOUT });
    return {
      run: (_key, section) =>
        file.update(async (state) => {
          await section();
          return updated(state);
        }),
    };
  },
};

/**
 * The two packages that programs combine for this. It flushes the new version, and not the folder.
 *
 * @type {import('./index.mjs').Subject}
 */
const lockAndWrite = {
  name: 'proper-lockfile + write-file-atomic',
  packages: ['proper-lockfile', 'write-file-atomic'],
  can: ['run'],
  create,
  open: (folder) => {
    /** @type {typeof import('proper-lockfile')} */
    const { lock } = load('proper-lockfile');
    /** @type {typeof import('write-file-atomic')} */
    const write = load('write-file-atomic');
    const file = stateIn(folder);
    return {
      run: async (_key, section) => {
        const release = await lock(file, { retries: RETRIES });
        try {
          const state = JSON.parse(await readFile(file, 'utf8'));
          await section();
          await write(file, JSON.stringify(updated(state)));
        } finally {
          await release();
        }
      },
    };
  },
};

/**
 * The steps alone, in blocking calls: two calls of `fcntl`, read, write a temporary file, flush it, rename it, flush the folder.
 * They do not exclude others, since the key is unlocked at once.
 *
 * @type {import('./index.mjs').Subject}
 */
const bareSteps = {
  name: 'floor: the steps of an update',
  packages: [],
  can: ['run'],
  limit: () => (barePair() === undefined ? 'there is no C compiler for it' : undefined),
  create,
  open: (folder) => {
    const pair = barePair();
    const locked = openSync(path.join(folder, 'lock'), 'a+');
    const file = stateIn(folder);
    return {
      run: async (_key, section) => {
        pair?.(locked);
        const state = JSON.parse(readFileSync(file, 'utf8'));
        await section();
        const temporary = openSync(`${file}.new`, 'w');
        writeSync(temporary, JSON.stringify(updated(state)));
        fsyncSync(temporary);
        closeSync(temporary);
        renameSync(`${file}.new`, file);
        const opened = openSync(folder, 'r');
        fsyncSync(opened);
        closeSync(opened);
      },
    };
  },
};

export const lockedFiles = [lockedFile, lockAndWrite];
export const lockedFileFloors = [bareSteps];
