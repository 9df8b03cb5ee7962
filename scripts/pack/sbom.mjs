// The contents of the published package, as CycloneDX: npm lists all installed packages, and this keeps the ones that
// ship.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';

import { packageRoot } from '../addon-inputs.mjs';

/** How each package gets to the users. */
const SHIPPED = {
  bindings: 'a dependency',
  'file-uri-to-path': 'a dependency of bindings',
  'xxhash-addon': 'xxHash, which it contains, is compiled into the binaries',
  'node-addon-api': 'its headers are compiled into the binaries',
  'jsonc-parser': 'bundled into dist/locked-file.cjs',
  'pprof-format': 'bundled into dist/contention.cjs',
};

/** @typedef {{ name: string, version: string, 'bom-ref': string, properties?: unknown[], scope?: string }} Component */

/** The version that is installed at the top. */
const versionOf = (/** @type {string} */ name) =>
  JSON.parse(readFileSync(path.join(packageRoot, 'node_modules', name, 'package.json'), 'utf8')).version;

/**
 * The text of sbom.cdx.json. Equal sources give equal texts.
 *
 * @param {{ name: string, version: string }} manifest
 */
export function billOfMaterials({ name, version }) {
  const output = execFileSync('npm', ['sbom', '--package-lock-only', '--sbom-format=cyclonedx'], {
    cwd: packageRoot,
    encoding: 'utf8',
    maxBuffer: 64 * 2 ** 20,
    shell: process.platform === 'win32',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const all = JSON.parse(output);
  const components = Object.entries(SHIPPED).map(([shipped, how]) => {
    const found = all.components.find(
      (/** @type {Component} */ component) =>
        component.name === shipped && component.version === versionOf(shipped),
    );
    if (found === undefined) throw new Error(`npm does not list ${shipped}`);
    const { properties: _, scope: __, ...rest } = found;
    return { ...rest, scope: 'required', properties: [{ name: 'stripelock:shipped', value: how }] };
  });
  const { $schema, bomFormat, specVersion } = all;
  // Without the time and the random number, which would make each package another one.
  const { tools, component } = all.metadata;
  const metadata = { tools, component: { ...component, name, properties: [] } };
  const dependencies = [{ ref: `${name}@${version}`, dependsOn: components.map((part) => part['bom-ref']) }];
  return `${JSON.stringify({ $schema, bomFormat, specVersion, version: 1, metadata, components, dependencies }, null, 2)}\n`;
}
