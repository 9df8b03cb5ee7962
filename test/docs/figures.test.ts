import { readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { primaryMetric } from '../../bench/metrics.mjs';
import { figureOf, JAVASCRIPT, measured, NATIVE, type Results } from '../../bench/results.mjs';
import { tablesIn } from '../../scripts/docs/markdown.mjs';
import { root, textOf } from './pages.js';

// The figures in the README and in docs/performance.md match the newest run on Node 24, rounded.

const RESULTS = 'bench/results';
const file = readdirSync(path.join(root, RESULTS))
  .filter((name) => name.endsWith('-node24.json'))
  .sort()
  .at(-1)!;
const results = JSON.parse(textOf(`${RESULTS}/${file}`)) as Results;

const KEYED = 'KeyedLock native';
const MUTEX = 'Atomics mutex';
const SWAP = 'floor: compare-exchange pair';
const AWAIT = 'floor: await of a settled promise';
const LOCK = 'async-lock';
const NODE = 'Node locks';

/** For a row of a table: the workload, then whose figures it has, in order. In the page: nanoseconds, or how many a second. */
type Rows = Record<string, [workload: string, ...subjects: string[]]>;

const readme: Rows = {
  'free key, sync': ['sync, hot string key', KEYED, MUTEX],
  'free key, awaited': ['async, hot string key', KEYED, 'async-mutex', LOCK, NODE],
  '8 free keys, awaited': ['async, 8 hot keys', KEYED, LOCK],
};

const all = [NATIVE, KEYED, JAVASCRIPT];
const performance: Rows = {
  'hot string key, sync': ['sync, hot string key', ...all, SWAP, MUTEX],
  'integer key, sync': ['sync, integer key', ...all, SWAP, MUTEX],
  'shared, sync': ['sync, shared mode', ...all, SWAP],
  '8 hot keys, sync': ['sync, 8 hot keys', ...all, SWAP, MUTEX],
  'one of 1000 keys, sync': ['sync, 1 of 1000 keys', ...all, SWAP, MUTEX],
  'a million keys, sync': ['sync, 1,000,000 distinct keys', ...all, SWAP, MUTEX],
  'hot string key, awaited': ['async, hot string key', ...all, AWAIT, LOCK, NODE],
  'the same by withLock': ['async, hot string key, with a callback', ...all, AWAIT, LOCK, NODE],
  '8 hot keys, awaited': ['async, 8 hot keys', ...all, AWAIT, LOCK],
  'web locks, with a callback': [
    'web locks, a callback that returns nothing',
    'stripelock web locks',
    AWAIT,
    NODE,
  ],
  '2 threads, 1 stripe, 100 ns held, per second': [
    'sync, 2 threads, 1 stripe, 100 ns section, uniform',
    NATIVE,
    JAVASCRIPT,
    MUTEX,
  ],
  '4 threads, 16 stripes, 4 keys, 100 ns, per second': [
    'sync, 4 threads, 16 stripes, 100 ns section, uniform, 4 keys',
    NATIVE,
    JAVASCRIPT,
    MUTEX,
  ],
  '100 tasks of a thread, 1 key, per second': [
    'async, 1 thread, 1 key, 100 in flight',
    NATIVE,
    JAVASCRIPT,
    LOCK,
  ],
  '10,000 tasks of a thread, 1 key, per second': [
    'async, 1 thread, 1 key, 10,000 in flight',
    NATIVE,
    JAVASCRIPT,
    LOCK,
  ],
  '4 threads, 64 keys, 1 task each, per second': [
    'async, 4 threads, 64 keys, 1 in flight',
    NATIVE,
    JAVASCRIPT,
    NODE,
  ],
  '4 threads, 64 keys, 100 tasks each, per second': [
    'async, 4 threads, 64 keys, 100 in flight',
    NATIVE,
    JAVASCRIPT,
    NODE,
  ],
  'release to the next holder, both block, median': ['hand-over, sync → sync', NATIVE, JAVASCRIPT, MUTEX],
  'release to the next holder, both await, median': ['hand-over, async → async', NATIVE, JAVASCRIPT, NODE],
  SQLite: ['SQLite, a hot key', 'stripelock over SQLite'],
  etcd: ['etcd, a hot key', 'stripelock over etcd', 'etcd3'],
  PostgreSQL: ['PostgreSQL, a hot key', 'stripelock over PostgreSQL'],
  Redis: ['Redis, 10,000 keys', 'stripelock over Redis', 'redlock'],
};

/** A number on a page, and how it is rounded. */
interface Shown {
  value: number;
  step: number;
}

/** The numbers in a text; ratios (0.7) are others' business. Times are nanoseconds. */
function numbersIn(text: string): Shown[] {
  return [...text.matchAll(/(?<![\w.])(\d[\d,]*)(?![\w.])( µs)?/g)].map(([, digits, micro]) => {
    const scale = micro === undefined ? 1 : 1000;
    const plain = digits!.replaceAll(',', '');
    return { value: Number(plain) * scale, step: 10 ** /0*$/.exec(plain)![0].length * scale };
  });
}

/** The cells behind the label, in the one row that has it. */
function cellsOf(rows: readonly string[][], label: string): string {
  const found = rows.filter(([first]) => first === label);
  expect(found, label).toHaveLength(1);
  return found[0]!.slice(1).join(' | ');
}

function figure(workload: string, subject: string): number {
  const metric = primaryMetric(results.workloads.find(({ name }) => name === workload)!)!;
  return figureOf(measured(results, workload, subject)!, metric)!;
}

/** Those that are not the figures, rounded. */
const wrongIn = (shown: readonly Shown[], figures: readonly number[]): string[] =>
  figures.flatMap((value, i) => {
    const there = shown[i];
    const isRight = there !== undefined && Math.abs(there.value - value) <= 0.5001 * there.step;
    return isRight ? [] : [`${there?.value} is ${value}`];
  });

describe.each([
  ['README.md', readme],
  ['docs/performance.md', performance],
])('the figures of %s', (page, rows) => {
  const shown = tablesIn(textOf(page)).flat();

  it.each(Object.entries(rows))('%s', (label, [workload, ...subjects]) => {
    const figures = subjects.map((subject) => figure(workload, subject));
    expect(wrongIn(numbersIn(cellsOf(shown, label)), figures)).toEqual([]);
  });

  it('are of the newest run', () => {
    expect([...textOf(page).matchAll(/results\/([\w-]+\.json)/g)].map(([, name]) => name)).toContain(file);
  });
});

it('the text of the picture has its figures', () => {
  const text = /!\[[^\]]+\]\(bench\/results\/[\w-]+-overview\.svg\)/.exec(textOf('README.md'))![0];
  const figures = [KEYED, LOCK, 'async-mutex', 'web-locks', NODE].map((subject) =>
    figure('async, hot string key', subject),
  );
  expect(wrongIn(numbersIn(text), figures)).toEqual([]);
});

it('a wrong figure is found', () => {
  expect(wrongIn(numbersIn('31 ns | 1,140,000 | 20 µs | 0.7'), [30.6, 1_135_573, 19_759])).toEqual([]);
  expect(wrongIn(numbersIn('31 ns | 1,140,000'), [31.6, 1_146_000, 7])).toEqual([
    '31 is 31.6',
    '1140000 is 1146000',
    'undefined is 7',
  ]);
});
