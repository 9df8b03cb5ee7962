import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import {
  figureOf,
  fileText,
  measured,
  newResults,
  writeResults,
  type Results,
} from '../../bench/results.mjs';

const RESULTS = path.resolve(import.meta.dirname, '../../bench/results');

const read = (file: string): Results => JSON.parse(readFileSync(file, 'utf8')) as Results;

it('a run is written with a line for each row, and only the figures that pages and charts show', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-results-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const rounds = [
    { opsPerSecond: 1_234_567.891, p50: 12, p999: 98.7654321, minShare: 0.5 },
    { opsPerSecond: 1_234_567.891, max: 1 },
  ];
  const results = newResults('default');
  results.workloads.push({
    name: 'two threads',
    group: 'contended sync',
    runner: 'threads',
    rows: [
      { subject: 'a', floor: false, status: 'measured', rounds },
      { subject: 'b', floor: false, status: 'cannot', why: 'no threads', rounds: [] },
    ],
  });

  const file = writeResults(results, folder, true);
  const written = read(file);
  const row = measured(written, 'two threads', 'a')!;
  expect(row.rounds).toEqual([
    { opsPerSecond: 1_234_570, p999: 98.7654, minShare: 0.5 },
    { opsPerSecond: 1_234_570 },
  ]);
  expect(figureOf(row, 'opsPerSecond')).toBe(1_234_570);
  expect(written.workloads[0]!.rows[1]).toEqual(results.workloads[0]!.rows[1]);
  const lines = readFileSync(file, 'utf8').split('\n');
  expect(lines.filter((line) => line.includes('"subject":'))).toHaveLength(2);
});

it.each(readdirSync(RESULTS).filter((name) => name.endsWith('.json')))(
  '%s is as a run writes it, in fewer than 1,500 lines',
  (name) => {
    const text = readFileSync(path.join(RESULTS, name), 'utf8');
    expect(fileText(JSON.parse(text) as Results)).toBe(text);
    expect(text.split('\n').length).toBeLessThan(1500);
  },
);
