import { describe, expect, it } from 'vitest';
import { efforts } from '../../bench/effort.mjs';
import { prove } from '../../bench/runners/proofs.mjs';
import { runners } from '../../bench/runners/index.mjs';
import { floors } from '../../bench/subjects/floors.mjs';
import { subjects } from '../../bench/subjects/index.mjs';
import { calibrate } from '../../bench/support/busy.mjs';
import { fullWorkloads } from '../../bench/workloads/index.mjs';

function workloadNamed(name: string) {
  const workload = fullWorkloads.find((candidate) => candidate.name === name);
  if (workload === undefined) throw new Error(`no workload "${name}"`);
  return workload;
}

/** Keys that are held, in the order of taking; `lenient` says what it takes without asking. */
function exclusiveLock(lenient: (key: string, held: Set<string>) => boolean) {
  const held = new Set<string>();
  const waiting: (() => void)[] = [];
  const tryAll = (keys: string[]) => {
    const asked = keys.filter((key) => !lenient(key, held));
    if (asked.some((key) => held.has(key))) return undefined;
    for (const key of asked) held.add(key);
    return asked;
  };
  const release = (keys: string[]) => {
    for (const key of keys) held.delete(key);
    for (const wake of waiting.splice(0)) wake();
  };
  const run = async (keys: string[], section: () => Promise<unknown>) => {
    let mine = tryAll(keys);
    while (mine === undefined) {
      await new Promise<void>((resolve) => waiting.push(resolve));
      mine = tryAll(keys);
    }
    await section();
    release(mine);
  };
  return {
    acquireSync: (key: string) => tryAll([key]),
    acquireManySync: tryAll,
    tryAcquire: (key: string) => tryAll([key]),
    release,
    run: (key: string, section: () => Promise<unknown>) => run([key], section),
    runMany: run,
  };
}

const able = { ...subjects[0]!, can: ['sync', 'try', 'run', 'many'] as const };
const list = ['a', 'b', 'c'];
const operations = [
  ['sync', ['a', 'a']],
  ['syncMany', [list, list]],
  ['run', ['a', 'a']],
  ['asyncMany', [list, list]],
] as const;

describe('the proof that a subject locks what it says', () => {
  it.each(operations)('accepts one that does: %s', async (operation, keys) => {
    await expect(
      prove(
        exclusiveLock(() => false),
        able,
        operation,
        keys,
      ),
    ).resolves.toBeUndefined();
  });

  it.each(operations)('refuses one that locks nothing: %s', async (operation, keys) => {
    const lock = exclusiveLock(() => true);
    await expect(prove(lock, able, operation, keys)).rejects.toThrow('let a second one in');
  });

  it.each(operations.filter(([operation]) => operation.endsWith('Many')))(
    'refuses one that forgets a key: %s',
    async (operation, keys) => {
      const lock = exclusiveLock((key) => key === 'c');
      await expect(prove(lock, able, operation, keys)).rejects.toThrow('let a second one in');
    },
  );

  it('refuses one that does not give back', async () => {
    const lock = { ...exclusiveLock(() => false), release: () => undefined };
    await expect(prove(lock, able, 'sync', ['a', 'a'])).rejects.toThrow('is still held');
  });
});

describe('a workload with many requests', () => {
  const { noLock } = floors;

  it('finds out that blocking threads did not exclude each other', async () => {
    const workload = workloadNamed('sync, 16 threads, 1024 stripes, 100 µs section, zipf');
    await expect(runners.threads(workload, noLock, efforts.quick, calibrate())).rejects.toThrow(
      /half-done|were kept/,
    );
  });

  it('finds out that requests of one thread did not exclude each other', async () => {
    const workload = workloadNamed('async, 1 thread, 1 key, 100 in flight');
    await expect(runners.threads(workload, noLock, efforts.quick, 1)).rejects.toThrow(/half-done|were kept/);
  });

  it.each(subjects.slice(0, 2).map((subject) => [subject.name, subject] as const))(
    'finds nothing wrong with a lock: %s',
    async (_name, subject) => {
      const workload = workloadNamed('sync, 16 threads, 1024 stripes, 100 µs section, zipf');
      const figures = await runners.threads(workload, subject, efforts.quick, calibrate());
      expect(figures.opsPerSecond).toBeGreaterThan(0);
    },
  );
});
