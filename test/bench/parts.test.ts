import { describe, expect, it } from 'vitest';
import { subjects, whyNot } from '../../bench/subjects/index.mjs';
import { floors } from '../../bench/subjects/floors.mjs';
import { Arena, MEASURE } from '../../bench/support/arena.mjs';
import { busy, calibrate } from '../../bench/support/busy.mjs';
import { drawKeys, drawModes, DRAWS } from '../../bench/support/keys.mjs';
import { Waits } from '../../bench/support/waits.mjs';
import { fullWorkloads, workloads } from '../../bench/workloads/index.mjs';

const SEED = 7;

describe('drawing keys', () => {
  const countsOf = (draws: number[][], keys: number) => {
    const counts = Array.from({ length: keys }, () => 0);
    for (const index of draws.flat()) counts[index]!++;
    return counts;
  };

  it('draws uniformly: no key much more often than another', () => {
    const draws = drawKeys({ keys: 16, distribution: 'uniform', keysAtOnce: 1 }, SEED);
    expect(draws).toHaveLength(DRAWS);
    const counts = countsOf(draws, 16);
    // 256 each, with a standard deviation of 15.5.
    expect(Math.min(...counts)).toBeGreaterThan(256 - 78);
    expect(Math.max(...counts)).toBeLessThan(256 + 78);
  });

  it("draws by Zipf's law: the busiest key as often as the sum of 1 / rank^0.99 says", () => {
    const keys = 1024;
    const counts = countsOf(drawKeys({ keys, distribution: 'zipf', keysAtOnce: 1 }, SEED), keys);
    let sum = 0;
    for (let rank = 1; rank <= keys; rank++) sum += 1 / rank ** 0.99;
    expect(counts[0]! / DRAWS).toBeCloseTo(1 / sum, 1);
    expect(counts[0]! / counts[1]!).toBeGreaterThan(1.5);
    expect(counts[0]! / counts[1]!).toBeLessThan(2.7);
  });

  it('draws different keys where several are taken at once, also when there are hardly more', () => {
    for (const distribution of ['uniform', 'zipf'] as const) {
      const draws = drawKeys({ keys: 5, distribution, keysAtOnce: 4 }, SEED);
      expect(draws.every((indexes) => new Set(indexes).size === 4)).toBe(true);
    }
  });

  it('draws the same for the same seed, and others for another', () => {
    const choice = { keys: 1024, distribution: 'zipf', keysAtOnce: 1 } as const;
    expect(drawKeys(choice, SEED)).toEqual(drawKeys(choice, SEED));
    expect(drawKeys(choice, SEED)).not.toEqual(drawKeys(choice, SEED + 1));
  });

  it('draws shared mode as often as asked for', () => {
    const shared = drawModes(0.95, SEED).filter(Boolean).length / DRAWS;
    expect(shared).toBeGreaterThan(0.93);
    expect(shared).toBeLessThan(0.97);
  });
});

describe('the memory that threads share', () => {
  it('is the same in each thread', () => {
    const arena = new Arena(2, 3);
    const other = new Arena(2, 3, arena.memory);
    other.enter(MEASURE);
    other.write(2);
    other.count(1);
    expect(arena.phase).toBe(MEASURE);
    expect(arena.counts()).toEqual([0, 1]);
    expect(arena.written).toBe(1);
  });

  it('tells a write that is half done, and one that was lost', () => {
    const arena = new Arena(1, 2);
    arena.beginWrite(1);
    expect(arena.consistent(0)).toBe(true);
    expect(arena.consistent(1)).toBe(false);
    expect(arena.written).toBeNaN();
    arena.endWrite(1);
    expect(arena.consistent(1)).toBe(true);
    expect(arena.written).toBe(1);
  });
});

describe('the times that were waited', () => {
  it('come out as percentiles in nanoseconds, over all threads', () => {
    const waits = [new Waits(), new Waits()];
    for (let i = 1; i <= 1000; i++) waits[i % 2]!.record(i / 1000);
    const all = new Waits();
    for (const { histogram } of waits) all.add(histogram);
    const { p50, p99, p999, max } = all.percentiles();
    // Three figures are kept.
    const about = (value: number | undefined, wanted: number) =>
      expect(Math.abs(value! - wanted) / wanted).toBeLessThan(0.002);
    about(p50, 500_000);
    about(p99, 990_000);
    about(p999, 999_000);
    about(max, 1_000_000);
  });

  it('have no percentiles where nothing was timed, and bear a clock that stands still', () => {
    const waits = new Waits();
    expect(waits.percentiles()).toEqual({});
    waits.record(0);
    expect(waits.percentiles().p50).toBe(1);
  });
});

describe('busy work', () => {
  it('takes as many iterations as it is given', () => {
    expect(busy(0, 5)).toBe(5);
    expect(busy(2, 5)).toBe(busy(1, busy(1, 5)));
  });

  it('is calibrated to something that a processor can do', () => {
    const iterationsPerNanosecond = calibrate();
    // From 20 MHz to 20 GHz, at an iteration a cycle.
    expect(iterationsPerNanosecond).toBeGreaterThan(0.02);
    expect(iterationsPerNanosecond).toBeLessThan(20);
  });
});

describe('a subject', () => {
  const methods: Record<string, string[]> = {
    sync: ['acquireSync', 'release'],
    try: ['tryAcquire', 'release'],
    acquire: ['acquire', 'release'],
    run: ['run'],
  };

  it.each([...subjects, ...Object.values(floors)].map((subject) => [subject.name, subject] as const))(
    'has the methods for what it can: %s',
    (_name, subject) => {
      if (subject.limit?.({ group: '', needs: [], keys: 1 }) !== undefined) return;
      const lock = subject.open(subject.create({ stripes: 4 })) as Record<string, unknown>;
      for (const ability of subject.can) {
        for (const method of methods[ability] ?? []) expect(lock[method]).toBeTypeOf('function');
      }
      const wanted = (form: string) =>
        [
          subject.can.includes('sync') && `acquire${form}Sync`,
          subject.can.includes('acquire') && `acquire${form}`,
          !subject.can.includes('acquire') && subject.can.includes('run') && `run${form}`,
        ].filter((name) => name !== false);
      if (subject.can.includes('many'))
        for (const name of wanted('Many')) expect(lock[name]).toBeTypeOf('function');
      if (subject.can.includes('shared')) {
        for (const name of wanted('Shared')) expect(lock[name]).toBeTypeOf('function');
      }
    },
  );

  /** A workload as far as a subject looks at it. */
  const needing = (...needs: Parameters<typeof whyNot>[1]['needs']) => ({ group: '', keys: 1, needs });

  it('cannot do what it lacks an ability for, one of several being enough', () => {
    const subject = { ...subjects[0]!, can: ['run'] as const };
    expect(whyNot(subject, needing('sync'))).toBe('has no sync');
    expect(whyNot(subject, needing(['acquire', 'run'], 'many'))).toBe('has no many');
    expect(whyNot(subject, needing(['acquire', 'run']))).toBeUndefined();
  });

  it('cannot do what it says itself', () => {
    const subject = { ...subjects[0]!, limit: () => 'is too small' };
    expect(whyNot(subject, needing())).toBe('is too small');
  });
});

describe('the workloads', () => {
  it('have a name each', () => {
    const names = fullWorkloads.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  it('are each in the reach of both engines', () => {
    for (const workload of workloads) {
      for (const subject of subjects.slice(0, 2)) expect(whyNot(subject, workload)).toBeUndefined();
    }
  });

  it('of contended sync make the whole product when asked for all', () => {
    const contended = fullWorkloads.filter(({ group }) => group === 'contended sync');
    expect(contended).toHaveLength(4 * 3 * 4 * 6);
  });
});
