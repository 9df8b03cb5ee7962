// Makes a folder equal to what a build has in memory. It never empties the folder, because tests, lint and demos may be
// reading it at the same time: it replaces each changed file in one step, and leaves all others as they are.

import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/**
 * Replaces the file in one step, so that no process reads half a file. The new file is written outside the folder, because
 * another build would delete it there.
 *
 * @param {string} folder
 * @param {string} file
 * @param {string} text
 */
function replace(folder, file, text) {
  const fresh = `${folder}.${process.pid}`;
  mkdirSync(path.dirname(file), { recursive: true });
  // A file that begins with the name of an interpreter is a program.
  writeFileSync(fresh, text, { mode: text.startsWith('#!') ? 0o777 : 0o666 });
  renameSync(fresh, file);
}

/** @param {string} file */
function textOf(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/**
 * Deletes all files below a folder except the given ones, and then folders that are empty.
 *
 * @param {string} folder
 * @param {ReadonlyMap<string, unknown>} files By absolute path.
 */
function deleteOthers(folder, files) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const name = path.join(folder, entry.name);
    if (entry.isDirectory()) deleteOthers(name, files);
    else if (!files.has(name)) rmSync(name, { force: true });
  }
  if (readdirSync(folder).length === 0) rmdirSync(folder);
}

/**
 * Afterwards the folder contains these files and nothing else.
 *
 * @param {string} folder
 * @param {ReadonlyMap<string, string>} files Texts, by absolute path.
 */
export function makeEqual(folder, files) {
  mkdirSync(folder, { recursive: true });
  for (const [file, text] of files) if (textOf(file) !== text) replace(folder, file, text);
  deleteOthers(folder, files);
}
