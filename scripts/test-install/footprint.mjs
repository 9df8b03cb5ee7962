// How many packages an install adds, and how much they take on disk.

import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';

const mostPackages = 3;
const mostBytes = 4 * 1024 * 1024;
/** Files take whole blocks on most file systems. */
const block = 4096;
/** How many platforms the published package has binaries for. */
const platforms = 8;

/**
 * Counts each package once, although managers may link it in several places. If the package has fewer binaries than the
 * published one, it counts the largest in their place.
 *
 * @param {string} project
 * @param {string} folder Where the manager puts packages, in the project. Not in `node_modules`, it holds only those
 *   that cannot be used from an archive.
 */
export function footprint(project, folder) {
  const unzipped = folder === 'node_modules';
  const place = path.join(project, folder);
  const files = existsSync(place)
    ? readdirSync(place, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => path.join(entry.parentPath, entry.name))
    : [];
  const sizeOf = (/** @type {string} */ file) => Math.ceil(statSync(file).size / block) * block;
  const binaries = files.filter((file) => file.endsWith('stripelock.node')).map(sizeOf);
  const bytes =
    files.reduce((sum, file) => sum + sizeOf(file), 0) +
    Math.max(0, platforms - binaries.length) * Math.max(0, ...binaries);
  const manifests = files.filter((file) => path.basename(file) === 'package.json');
  const packages = unzipped ? new Set(manifests.flatMap(nameIn)).size : lockedIn(project);
  const wrong = [
    ...(files.length > 0 && binaries.length === 0 ? ['no binary was installed'] : []),
    ...(packages > mostPackages ? [`${packages} packages, more than ${mostPackages}`] : []),
    ...(bytes > mostBytes ? [`${bytes} bytes, more than ${mostBytes}`] : []),
  ].join('; ');
  return { packages, bytes, wrong: wrong === '' ? undefined : wrong };
}

/**
 * Empty for a manifest without name and version, which only says how files of a folder are loaded.
 *
 * @param {string} manifest
 */
function nameIn(manifest) {
  const { name, version } = JSON.parse(readFileSync(manifest, 'utf8'));
  return name === undefined || version === undefined ? [] : [`${name}@${version}`];
}

/**
 * The packages in the lock file of yarn, but for the project itself.
 *
 * @param {string} project
 */
const lockedIn = (project) =>
  readFileSync(path.join(project, 'yarn.lock'), 'utf8')
    .split('\n')
    .filter((line) => /^ {2}resolution: /.test(line) && !line.includes('@workspace:')).length;
