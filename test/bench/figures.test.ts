import { describe, expect, it } from 'vitest';
import { figureOf, ratioOf, timesWorse } from '../../bench/results.mjs';
import { workloadTable } from '../../bench/report.mjs';
import { evaluate } from '../../bench/targets.mjs';
import { format } from '../../bench/support/format.mjs';
import { summary } from '../../bench/support/statistics.mjs';

type Figures = Record<string, number>;

function row(
  subject: string,
  rounds: Figures[],
  status: 'measured' | 'cannot' | 'failed' = 'measured',
  why?: string,
) {
  return { subject, floor: subject.startsWith('floor'), status, why, rounds };
}

function workload(name: string, runner: 'single' | 'threads', rows: ReturnType<typeof row>[]) {
  return { name, group: 'a group', runner, measure: undefined, rows };
}

const results = (...workloads: ReturnType<typeof workload>[]) =>
  ({ workloads }) as unknown as Parameters<typeof evaluate>[0];

const times = (...nanoseconds: number[]) => nanoseconds.map((nsPerOp) => ({ nsPerOp }));
const rates = (...operations: number[]) => operations.map((opsPerSecond) => ({ opsPerSecond }));

function outcome(start: string, ...workloads: ReturnType<typeof workload>[]) {
  const found = evaluate(results(...workloads)).find(({ target }) => target.startsWith(start));
  if (found === undefined) throw new Error(`no target starts with "${start}"`);
  return found;
}

describe('the summary of several rounds', () => {
  it('is their median and quartiles, which one round that was disturbed does not move', () => {
    const calm = summary([10, 11, 12, 13, 14]);
    const disturbed = summary([10, 11, 12, 13, 1400]);
    expect(calm.median).toBe(12);
    expect(disturbed.median).toBe(12);
    expect([disturbed.low, disturbed.high]).toEqual([calm.low, calm.high]);
    expect([disturbed.best, disturbed.worst]).toEqual([10, 1400]);
  });

  it('gives the spread in percent of the median', () => {
    expect(summary([90, 90, 100, 110, 110]).spread).toBeCloseTo(10);
    expect(summary([7]).spread).toBe(0);
    expect(summary([0, 0]).spread).toBe(0);
  });

  it('compares round by round, so that a machine that was slow for a while cancels out', () => {
    expect(ratioOf(row('x', times(10, 100, 10)), row('y', times(5, 50, 5)), 'nsPerOp')).toBe(2);
  });
});

describe('a figure', () => {
  it('is the median of the rounds, but of maxima the greatest', () => {
    const waits = row('x', [
      { p99: 1, max: 10 },
      { p99: 3, max: 90 },
      { p99: 2, max: 20 },
    ]);
    expect(figureOf(waits, 'p99')).toBe(2);
    expect(figureOf(waits, 'max')).toBe(90);
    expect(figureOf(waits, 'nsPerOp')).toBeUndefined();
  });

  it('is compared only in rounds that both have', () => {
    const some = row('x', [{ p99: 8 }, {}, { p99: 30 }]);
    expect(ratioOf(some, row('y', [{ p99: 2 }, { p99: 1 }, {}]), 'p99')).toBe(4);
    expect(ratioOf(some, row('y', [{}, { p99: 1 }]), 'p99')).toBeUndefined();
  });

  it('is worse when it is a longer time, or a lower rate', () => {
    const timed = workload('w', 'single', []);
    expect(timesWorse(timed, row('x', times(30)), row('y', times(10)))).toBe(3);
    const counted = workload('w', 'threads', []);
    expect(timesWorse(counted, row('x', rates(10)), row('y', rates(30)))).toBe(3);
  });

  it.each([
    [1.234, 'ns', '1.23 ns'],
    [56.78, 'ns', '56.8 ns'],
    [999, 'ns', '999 ns'],
    [1234, 'ns', '1.23 µs'],
    [45_600_000, 'ns', '45.6 ms'],
    [2e9, 'ns', '2.00 s'],
    [0.5, 'ns', '0.50 ns'],
    [950, 'rate', '950 /s'],
    [12_345, 'rate', '12.3 k/s'],
    [3_331_975, 'rate', '3.33 M/s'],
    [1712.6, 'bytes', '1,713 B'],
    [0.456, 'share', '0.46'],
    [2.666, 'times', '2.67 ×'],
    [NaN, 'ns', '–'],
  ] as const)('%d as %s reads %s', (value, unit, text) => {
    expect(format(value, unit)).toBe(text);
  });
});

describe('the table of a workload', () => {
  const lines = workloadTable(
    workload('sync, hot string key', 'single', [
      row('floor: compare-exchange pair', times(20, 20)),
      row('stripelock native', times(40, 40)),
      row('async-lock', [], 'cannot', 'has no sync'),
      row('Atomics mutex', [], 'failed', '5 operations counted 4'),
      row('Node locks', times(80, 80), 'measured', '5 writes, 4 were kept'),
    ]),
  ).split('\n');

  it('shows each subject against the floor and against the native engine', () => {
    expect(lines[1]).toMatch(/floor: compare-exchange pair +20\.0 ns +0 % +1\.00 × +0\.50 ×/);
    expect(lines[2]).toMatch(/stripelock native +40\.0 ns +0 % +2\.00 × +1\.00 ×/);
  });

  it('says who cannot, and who failed, and why', () => {
    expect(lines[3]).toMatch(/async-lock +cannot: has no sync/);
    expect(lines[4]).toMatch(/Atomics mutex +FAILED: 5 operations counted 4/);
  });

  it('does not show the figures of one that miscounted without saying so', () => {
    expect(lines[5]).toMatch(/Node locks \(MISCOUNTED\) +80\.0 ns/);
    expect(lines[6]).toContain('MISCOUNTED: Node locks: 5 writes, 4 were kept');
  });
});

describe('a target', () => {
  const hot = (native: number) =>
    workload('sync, hot string key', 'single', [
      row('floor: compare-exchange pair', times(20)),
      row('stripelock native', times(native)),
    ]);

  it('is met up to its limit and missed beyond', () => {
    expect(outcome('sync, hot string key: at most 1.9', hot(38))).toMatchObject({
      figure: '1.90 ×',
      met: true,
    });
    expect(outcome('sync, hot string key: at most 1.9', hot(39))).toMatchObject({ met: false });
  });

  it('of a throughput is met by more, of a time by less', () => {
    const crowd = 'sync, 8 threads, 16 stripes, 5 µs section, uniform';
    const rows = (native: number) => [
      row('stripelock native', rates(native)),
      row('stripelock javascript', rates(100)),
    ];
    expect(outcome(`${crowd}: at least 1.3`, workload(crowd, 'threads', rows(131))).met).toBe(true);
    expect(outcome(`${crowd}: at least 1.3`, workload(crowd, 'threads', rows(129))).met).toBe(false);
  });

  it('compares across workloads where it says so', () => {
    const sync = workload('sync, 8 hot keys', 'single', [row('stripelock native', times(200))]);
    const awaited = workload('async, 8 hot keys', 'single', [row('async-lock', times(1300))]);
    expect(outcome('sync, 8 hot keys: at least 6 ×', sync, awaited)).toMatchObject({
      figure: '6.50 ×',
      met: true,
    });
  });

  it('is neither met nor missed where something was not measured or failed', () => {
    const failed = workload('sync, hot string key', 'single', [
      row('floor: compare-exchange pair', times(20)),
      row('stripelock native', times(10), 'failed', 'miscounted'),
    ]);
    expect(outcome('sync, hot string key: at most 1.9', failed).met).toBeUndefined();
    expect(outcome('sync, hot string key: at most 1.9').met).toBeUndefined();
    expect(outcome('every workload but the first locks').met).toBeUndefined();
  });

  it('tells of a thread that got nothing, in whichever round that was', () => {
    const shares = (...minShares: number[]) =>
      workload('w', 'threads', [
        row(
          'stripelock native',
          minShares.map((minShare) => ({ opsPerSecond: 1, minShare })),
        ),
      ]);
    expect(outcome('every workload with threads', shares(0.5, 0.02, 0.9))).toMatchObject({ met: true });
    expect(outcome('every workload with threads', shares(0.5, 0, 0.9))).toMatchObject({
      figure: 'least 0.00 in "w"',
      met: false,
    });
  });

  it('over all workloads names the worst', () => {
    const engines = (name: string, native: number) =>
      workload(name, 'single', [
        row('stripelock native', times(native)),
        row('stripelock javascript', times(100)),
      ]);
    expect(outcome('every workload but the first locks', engines('a', 90), engines('b', 104))).toMatchObject({
      met: true,
    });
    expect(
      outcome('every workload but the first locks', engines('a', 90), engines('b', 200), engines('c', 110)),
    ).toMatchObject({
      figure: '2 of 3 below; least 0.50 × in "b"',
      met: false,
    });
  });
});
