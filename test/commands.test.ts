import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect, it } from 'vitest';
import { textOf } from './docs/pages.js';

// The commands for contributors.

const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };
const named = ['CONTRIBUTING.md', 'README.md', '.ci/run', '.github/workflows/prebuild.yml'].flatMap((file) =>
  [...textOf(file).matchAll(/npm run ([\w:-]+)/g)].map(([, name]) => name!),
);

it('each command that the pages, CI or the workflow name exists', () => {
  expect([...new Set(named)].filter((name) => !(name in scripts))).toEqual([]);
});

it('no command runs by itself before or after another', () => {
  const hooks = Object.keys(scripts).filter((name) => {
    const [, hooked] = /^(?:pre|post)(.+)$/.exec(name) ?? [];
    return hooked !== undefined && hooked in scripts;
  });
  expect(hooks.filter((name) => named.includes(name))).toEqual([]);
});

it.runIf(process.platform === 'linux')(
  '.ci/run refuses a step that it does not have, and names those that it has',
  () => {
    const { status, stdout, stderr } = spawnSync(path.resolve('.ci/run'), ['lint', 'nosuch'], {
      encoding: 'utf8',
    });
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(stderr).toMatch(/^There is no step nosuch\. The steps are: test .*\blint\b.* model docs$/m);
  },
);

it('.ci/run runs all tests: those that npm test leaves out are a separate step', () => {
  expect(scripts['test']).toBe('vitest run --project quick');
  expect(scripts['test:slow']).toBe('vitest run --project slow --project faults');
  expect(textOf('.ci/run')).toMatch(
    /npm ci && npm run install:recipes && npm run install:tools && npm test'[^]*npm run test:slow'/,
  );
});
