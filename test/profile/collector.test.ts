import { describe, expect, it } from 'vitest';
import type { ReleaseRecord, WaitRecord } from '../../lib/engine/contract/contention.js';
import { classOf, Collector } from '../../lib/profile/collector.js';

function wait(record: Partial<WaitRecord>): WaitRecord {
  return {
    event: 'wait',
    id: 1,
    lock: 'lock',
    key: '"key"',
    stripe: 0,
    mode: 'exclusive',
    kind: 'sync',
    outcome: 'granted',
    holders: [],
    thread: 2,
    from: 0,
    to: 10,
    every: 1,
    frames: ['waits (a.js:1:1)'],
    ...record,
  };
}

function release(record: Partial<ReleaseRecord>): ReleaseRecord {
  return {
    event: 'release',
    id: 1,
    stripe: 0,
    thread: 1,
    at: 10,
    frames: ['releases (a.js:2:1)'],
    ...record,
  };
}

describe('what threads have recorded', () => {
  it('is put together: each release has the part of the wait since the one before', () => {
    const collector = new Collector(100);
    // In any order, and of other stripes and locks, and of earlier and later.
    collector.add([wait({ from: 100, to: 130 }), release({ at: 130, thread: 3 })], 0);
    collector.add(
      [
        release({ at: 120 }),
        release({ at: 110, id: 2 }),
        release({ at: 110, stripe: 1 }),
        release({ at: 99 }),
        release({ at: 131 }),
      ],
      0,
    );
    expect(collector.waits).toEqual([]);
    const finished = collector.finished();
    expect(
      finished.waits.map(({ releases }) => releases.map(({ threadId, at, share }) => [threadId, at, share])),
    ).toEqual([
      [
        [1, 20, 20],
        [3, 30, 10],
      ],
    ]);
    const [site] = finished.releasing.values();
    expect(site).toMatchObject({ lock: 'lock', key: '"key"', waits: 1, waited: 30, longest: 20 });
  });

  it('counts as many as it stands for, by how long the wait had lasted when it was drawn', () => {
    const all = new Collector(0);
    all.add([wait({ from: 0, to: 10, every: 8 }), release({ at: 2 })], 0);
    const collector = all.finished();
    expect(collector.waits[0]!.weight).toBe(4);
    expect([...collector.keys.values()]).toMatchObject([{ waits: 4, waited: 40, longest: 10 }]);
    expect([...collector.releasing.values()]).toMatchObject([{ waits: 4, waited: 8, longest: 2 }]);
  });

  it('waits some seconds for the releases of a wait, because their threads may be busy', () => {
    const collector = new Collector(0);
    collector.add([wait({ from: 0, to: 10 })], 0);
    collector.add([wait({ from: 4000, to: 5000, stripe: 1 })], 0);
    expect(collector.waits).toEqual([]);
    collector.add([release({ at: 9 })], 0);
    collector.add([wait({ from: 5000, to: 5100, stripe: 1 })], 0);
    expect(collector.waits.map(({ releases }) => releases.map(({ share }) => share))).toEqual([[9]]);
  });

  it('is not final in a copy: a release that is added later is missing only there', () => {
    const collector = new Collector(0);
    collector.add([wait({ from: 0, to: 10 }), release({ at: 4 })], 0);
    const early = collector.finished();
    expect(early.waits.map(({ releases }) => releases.map(({ share }) => share))).toEqual([[4]]);
    collector.add([release({ at: 9 })], 0);
    const { waits, keys, waiting, releasing } = collector.finished();
    expect(waits.map(({ releases }) => releases.map(({ share }) => share))).toEqual([[4, 5]]);
    expect([...keys.values(), ...waiting.values()]).toMatchObject([
      { waits: 1, waited: 10 },
      { waits: 1, waited: 10 },
    ]);
    expect([...releasing.values()]).toMatchObject([{ waits: 1, waited: 9, longest: 5 }]);
    expect([...early.releasing.values()]).toMatchObject([{ waits: 1, waited: 4 }]);
  });

  it('is bounded, however much comes, and says what it left out', () => {
    const all = new Collector(0);
    const count = 30_000;
    for (let i = 0; i < count; i++) {
      const at = { stripe: i, frames: [`f (${i}.js:1:1)`] };
      all.add([wait({ ...at, key: String(i) }), release(at)], i % 100 === 0 ? 1 : 0);
    }
    const collector = all.finished();
    expect(collector.waits.length).toBe(10_000);
    for (const sites of [collector.keys, collector.waiting, collector.releasing])
      expect(sites.size).toBeLessThanOrEqual(4096);
    expect(collector.leftOut.waits).toBe(count - 10_000);
    expect(collector.leftOut.records).toBe(count / 100 + count - 4096);
    // A random selection, not the first or the last ones.
    const mean = collector.waits.reduce((sum, { key }) => sum + Number(key), 0) / 10_000;
    expect(mean / count).toBeGreaterThan(0.45);
    expect(mean / count).toBeLessThan(0.55);
  });
});

it('keys of one kind have one class', () => {
  expect(classOf('"account 17"')).toBe('"account *"');
  expect(classOf('"user:550e8400-e29b-41d4-a716-446655440000/x"')).toBe('"user:*/x"');
  expect(classOf('"blob 9f86d081884c7d65"')).toBe('"blob *"');
  expect(classOf('"face of a decade"')).toBe('"face of a decade"');
  expect(classOf('-12')).toBe('<integer>');
  expect(classOf('<00ff>')).toBe('<bytes>');
});
