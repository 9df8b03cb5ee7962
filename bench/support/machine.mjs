import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');
const require = createRequire(import.meta.url);

export function machine() {
  return {
    cpu: os.cpus()[0]?.model ?? 'unknown',
    cores: os.availableParallelism(),
    memoryBytes: os.totalmem(),
    os: `${os.type()} ${os.release()} ${os.arch()}`,
  };
}

/**
 * The versions of node, V8 and the packages that the subjects use.
 *
 * @param {readonly import('../subjects/index.mjs').Subject[]} subjects
 * @returns {Record<string, string>}
 */
export function versions(subjects) {
  const packages = [...new Set(subjects.flatMap((subject) => subject.packages))];
  return {
    node: process.versions.node,
    v8: process.versions.v8,
    ...Object.fromEntries(packages.map((name) => [name, versionOf(name)])),
  };
}

/**
 * @param {string} packageName
 * @returns {string}
 */
function versionOf(packageName) {
  // Not by the path of its package.json, which a package need not export.
  let folder = path.dirname(require.resolve(packageName));
  for (;;) {
    const file = path.join(folder, 'package.json');
    if (existsSync(file)) {
      const { name, version } = JSON.parse(readFileSync(file, 'utf8'));
      if (name === packageName) return version;
    }
    if (folder === path.dirname(folder)) return 'unknown';
    folder = path.dirname(folder);
  }
}

/** Undefined if there is no repository, as in an unpacked archive. */
export function commit() {
  try {
    const git = (/** @type {string[]} */ ...options) =>
      execFileSync('git', options, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    // The results of earlier runs change nothing of what is measured.
    const changes = git('status', '--porcelain', '--', '.', ':!bench/results');
    return { commit: git('rev-parse', 'HEAD').trim(), dirty: changes.trim() !== '' };
  } catch {
    return undefined;
  }
}
