import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { compare, otherBuild, rowsAgainst } from '../../bench/against.mjs';
import { efforts } from '../../bench/effort.mjs';
import { measureWorkload } from '../../bench/schedule.mjs';
import { workloads } from '../../bench/workloads/index.mjs';

const root = path.resolve(import.meta.dirname, '../..');
const HOT = 'sync, hot string key';
let folder: string;

function workloadNamed(name: string) {
  const workload = workloads.find((candidate) => candidate.name === name);
  if (workload === undefined) throw new Error(`no workload "${name}"`);
  return workload;
}

/** A build whose locks take 20 µs longer, on a lock that is otherwise this checkout's. */
const SLOW = `
export * from ${JSON.stringify(pathToFileURL(path.join(root, 'dist', 'index.mjs')).href)};
import { StripedLock as Fast } from ${JSON.stringify(pathToFileURL(path.join(root, 'dist', 'index.mjs')).href)};
export class StripedLock {
  constructor(options) {
    return slow(new Fast(options));
  }
  static from(handle) {
    return slow(Fast.from(handle));
  }
}
function slow(lock) {
  const acquireSync = lock.acquireSync.bind(lock);
  lock.acquireSync = (...request) => {
    const end = performance.now() + 0.02;
    while (performance.now() < end);
    return acquireSync(...request);
  };
  return lock;
}
`;

beforeAll(() => {
  folder = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'stripelock-against-')));
  mkdirSync(path.join(folder, 'dist'));
  writeFileSync(
    path.join(folder, 'package.json'),
    '{ "name": "stripelock", "type": "module", "exports": "./dist/index.js" }\n',
  );
  writeFileSync(path.join(folder, 'dist', 'index.js'), SLOW);
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const row = (subject: string, rounds: Record<string, number>[], why?: string) => ({
  subject,
  floor: false,
  status: why === undefined ? ('measured' as const) : ('failed' as const),
  why,
  rounds,
});
const measured = (runner: 'single' | 'threads', ...rows: ReturnType<typeof row>[]) => ({
  name: 'a workload',
  group: 'a group',
  runner,
  measure: undefined,
  rows,
});

describe('a comparison of two builds', () => {
  it('measures the build in the other folder, and reports a slower one', async () => {
    const workload = workloadNamed(HOT);
    const rows = rowsAgainst(workload, otherBuild(folder));
    expect(rows.map(({ subject }) => subject.name)).toEqual([
      'stripelock native',
      'stripelock native',
      'KeyedLock native',
      'KeyedLock native',
      'stripelock javascript',
      'stripelock javascript',
    ]);
    const steps: string[] = [];
    // Not those of `smoke`, which are no longer than another program's time slice.
    const effort = { ...efforts.quick, rounds: 3 };
    const done = await measureWorkload(workload, rows, effort, 1, (subject) => steps.push(subject));
    expect(steps).toHaveLength(18);
    const comparisons = compare({ ...workload, measure: undefined, rows: done });
    expect(comparisons.map(({ subject, why }) => [subject, why])).toEqual([
      ['stripelock native', undefined],
      ['KeyedLock native', undefined],
      ['stripelock javascript', undefined],
    ]);
    // 20 µs against far less than one: also on a machine that is busy with other tests.
    for (const { ratio, rounds } of comparisons.filter(({ subject }) => subject !== 'KeyedLock native')) {
      expect(rounds).toHaveLength(3);
      expect(ratio).toBeGreaterThan(3);
    }
  });

  it('has all subjects that use stripelock, including leases, and no others', () => {
    const subjects = (name: string) =>
      rowsAgainst(workloadNamed(name), root).map(({ subject }) => subject.name);
    expect(new Set(subjects('lease, acquire + release'))).toEqual(
      new Set([
        'lease: acquire + release, renewal off',
        'lease: acquire + release, renewal on',
        'lease: store alone',
      ]),
    );
    for (const workload of workloads) {
      for (const { subject } of rowsAgainst(workload, root))
        expect(subject.name).toMatch(/^(stripelock|KeyedLock|lease)/);
    }
  });

  it('is above 1 where this checkout takes less time, or does more in the same time', () => {
    const [time] = compare(
      measured(
        'single',
        row('x', [{ nsPerOp: 10 }, { nsPerOp: 20 }]),
        row('x', [{ nsPerOp: 20 }, { nsPerOp: 60 }]),
      ),
    );
    expect(time).toMatchObject({ rounds: [2, 3], ratio: 2.5 });
    const [rate] = compare(
      measured('threads', row('x', [{ opsPerSecond: 10 }]), row('x', [{ opsPerSecond: 40 }])),
    );
    expect(rate).toMatchObject({ rounds: [0.25], ratio: 0.25 });
  });

  it('names the side and the failure', () => {
    const [failed] = compare(measured('single', row('x', [{ nsPerOp: 10 }]), row('x', [], 'no such method')));
    expect(failed).toMatchObject({ why: 'there: no such method', ratio: undefined });
  });

  it('needs a build in the other folder', () => {
    expect(() => otherBuild(path.join(folder, 'dist'))).toThrow(/has no build: run `npm run build` there/);
  });
});
