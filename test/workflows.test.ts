import { readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { targets } from '../scripts/prebuild/targets.mjs';
import { root, textOf } from './docs/pages.js';

// The workflows that build, attest and publish, as text.

const FOLDER = '.github/workflows';
const workflows = readdirSync(path.join(root, FOLDER)).map(
  (name) => [name, textOf(`${FOLDER}/${name}`)] as const,
);

/** The jobs of a workflow, by name: the lines below `jobs:` that a name with two spaces in front begins. */
function jobsOf(workflow: string): Map<string, string> {
  const [, ...parts] = workflow.slice(workflow.indexOf('\njobs:\n')).split(/^ {2}([\w-]+):\n/m);
  return new Map(
    Array.from({ length: parts.length / 2 }, (_, i) => [
      parts[2 * i]!,
      parts[2 * i + 1]!.replaceAll(/^ *#.*$/gm, ''),
    ]),
  );
}

/** Jobs that can identify themselves to others, in all workflows. */
const trusted = workflows.flatMap(([name, text]) =>
  [...jobsOf(text)]
    .filter(([, job]) => job.includes('id-token: write'))
    .map(([job, steps]) => [`${name}: ${job}`, steps] as const),
);

describe('the workflows', () => {
  it.each(workflows)('%s pins each action by its commit, and names the version', (_name, text) => {
    const used = [...text.matchAll(/uses: (.+)/g)].map(([, action]) => action!);
    expect(used.length).toBeGreaterThan(0);
    expect(used.filter((action) => !/^[\w-]+\/[\w-]+@[\da-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual(
      [],
    );
  });

  it.each(workflows)('%s lets jobs read alone, unless a job asks for more', (_name, text) => {
    expect(text.slice(0, text.indexOf('\njobs:\n'))).toMatch(/\npermissions:\n {2}contents: read\n(?! )/);
  });

  it('use one version of each action', () => {
    const used = new Set(
      workflows.flatMap(([, text]) => [...text.matchAll(/uses: (.+)/g)].map(([, action]) => action!)),
    );
    const names = [...used].map((action) => action.split('@')[0]);
    expect(new Set(names).size).toBe(names.length);
  });
});

describe('jobs with `id-token: write`', () => {
  it('attest and publish, and no other job has it', () => {
    expect(trusted.map(([name]) => name)).toEqual([
      'prebuild.yml: attest',
      'prebuild.yml: publish',
      'site.yml: publish',
    ]);
  });

  it.each(trusted)('%s neither checks out, nor installs, nor builds', (_name, job) => {
    expect(job).not.toMatch(/actions\/checkout|npm (?:ci|install|run|exec)|npx|\bscripts\//);
  });

  it.each(trusted.filter(([name]) => name.startsWith('prebuild')))('%s checks what it got', (_name, job) => {
    expect(job).toContain('sha256sum --check --strict');
    expect(job.indexOf('sha256sum')).toBeLessThan(job.search(/actions\/attest@|stage publish/));
  });
});

it('the tarball and the binary of each target have separate attestations', () => {
  const attest = jobsOf(textOf(`${FOLDER}/prebuild.yml`)).get('attest')!;
  const files = [...attest.matchAll(/^ {10}- (\S+)$/gm)].map(([, file]) => file);
  const binaries = targets.map(({ name }) => `prebuilds/${name}/stripelock.node`);
  expect(files).toEqual(['stripelock-*.tgz', ...binaries]);
});
