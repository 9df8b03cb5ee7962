import { describe, expect, it } from 'vitest';
import { valuesOf, type Results } from '../../bench/results.mjs';
import { summary } from '../../bench/support/statistics.mjs';
import { codeIn, tablesIn, targetsIn } from '../../scripts/docs/markdown.mjs';
import { markdownFiles, textOf } from './pages.js';

const readme = textOf('README.md');

describe('the README', () => {
  it('has at most 900 words by `wc`, which also counts code, and the bars of tables', () => {
    expect(readme.trim().split(/\s+/).length).toBeLessThanOrEqual(900);
  });

  it('shows how to install it, an example, then the two commands for a clone, and they exist', () => {
    const [install, clone] = codeIn(readme, 'sh').map(({ code }) => code);
    expect(install).toBe('npm install stripelock');
    const commands = clone!.split('\n').map((line) => line.split('#')[0]!.trim());
    expect(commands).toEqual(['npm ci && npm run demo', 'npm ci && npm test']);
    const places = [install!, '```js', clone!].map((text) => readme.indexOf(text));
    expect(places).toEqual(places.toSorted((a, b) => a - b));
    expect(readme.slice(0, places.at(-1)).split('\n').length).toBeLessThan(40);
    const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };
    // Each installs, builds and runs.
    for (const name of ['predemo', 'demo', 'pretest', 'test']) expect(scripts).toHaveProperty(name);
  });

  it('has one picture, of a run of the benchmark', () => {
    const pictures = targetsIn(readme).filter(({ picture }) => picture);
    expect(pictures.map(({ url }) => url)).toEqual([expect.stringMatching(/^bench\/results\/[\w-]+\.svg$/)]);
  });

  it('leads to every page of docs/', () => {
    const linked = targetsIn(readme).map(({ url }) => url);
    const pages = markdownFiles().filter((name) => name.startsWith('docs/'));
    expect(linked).toEqual(expect.arrayContaining(pages));
  });
});

describe('the times in the README', () => {
  const [, file] = /\[one run\]\((bench\/results\/[\w-]+\.json)\)/.exec(readme)!;
  const results = JSON.parse(textOf(file!)) as Results;
  const rows = tablesIn(readme).flatMap((table) =>
    table.filter((row) => row.some((cell) => / ns\b/.test(cell))),
  );
  const workloads: Record<string, string> = {
    'free key, sync': 'sync, hot string key',
    'free key, awaited': 'async, hot string key',
    '8 free keys, awaited': 'async, 8 hot keys',
  };

  /** The median, as a cell shows it. */
  function time(workload: string, subject: string): string {
    const { rows } = results.workloads.find(({ name }) => name === workload)!;
    const row = rows.find((row) => row.subject === subject)!;
    return row.status === 'measured' ? `${Math.round(summary(valuesOf(row, 'nsPerOp')).median)} ns` : '–';
  }

  it('match the run that it links', () => {
    const subjects = [['KeyedLock native'], ['async-mutex', 'async-lock'], ['Atomics mutex'], ['Node locks']];
    const expected = Object.entries(workloads).map(([row, workload]) => [
      row,
      ...subjects.map((names) => {
        const times = names.map((name) => time(workload, name));
        return times.every((text) => text === '–') ? '–' : times.join(', ');
      }),
    ]);
    expect(rows).toEqual(expected);
  });
});
