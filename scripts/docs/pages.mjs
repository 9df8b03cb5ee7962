// The Markdown pages of the site: their groups and their order.

import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';

/** The pages of each group, in order. A name with a star stands for all pages that are named nowhere else. */
const order = {
  Guide: [
    'docs/guide.md',
    'docs/features.md',
    'docs/recipes.md',
    'docs/frameworks.md',
    'docs/usage.md',
    'docs/processes.md',
    'docs/locked-file.md',
    'docs/web-locks.md',
    'docs/leases.md',
    'docs/stores.md',
    'docs/stores/*.md',
    'docs/hosts-and-bundlers.md',
    'docs/testing.md',
    'docs/observability.md',
    'docs/troubleshooting.md',
    'docs/migrating.md',
    'docs/*.md',
  ],
  Reference: ['api.md', 'docs/options.md', 'docs/errors.md', 'docs/guarantees.md', 'docs/engines.md'],
  Examples: ['examples/README.md', 'examples/*/README.md'],
  Background: ['docs/performance.md', 'docs/architecture.md', 'bench/README.md', 'model/README.md'],
  Project: ['CONTRIBUTING.md', 'SECURITY.md', 'CHANGELOG.md'],
};

export const groups = Object.keys(order);

/**
 * The Markdown files that are pages, in order, each with its group.
 *
 * @param {string} root
 * @returns {Map<string, string>} By relative path.
 */
export function pagesIn(root) {
  const named = new Set(Object.values(order).flat());
  /** @type {Map<string, string>} */
  const pages = new Map();
  for (const [group, names] of Object.entries(order)) {
    for (const name of names.flatMap((name) => filesOf(root, name, named))) pages.set(name, group);
  }
  return pages;
}

/**
 * @param {string} root
 * @param {string} name
 * @param {ReadonlySet<string>} named
 */
function filesOf(root, name, named) {
  const [before = '', after] = name.split('*');
  if (after === undefined) return existsSync(path.join(root, name)) ? [name] : [];
  const folder = path.join(root, before);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .map((entry) => (after.startsWith('/') ? `${before}${entry}${after}` : before + entry))
    .filter((file) => file.endsWith(after) && !named.has(file) && existsSync(path.join(root, file)))
    .sort();
}
