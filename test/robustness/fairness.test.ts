import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { startThread } from '../support/threads.js';
import { until } from '../support/waiting.js';

const THREADS = 4;

describe.each(['native', 'javascript'] as const)('async acquisitions on the %s engine', (engine) => {
  it('of threads that never pause do not starve other threads', async () => {
    const lock = new StripedLock({ engine, stripes: 1 });
    const gate = new SharedArrayBuffer(4);
    const rounds = new SharedArrayBuffer(4 * THREADS);
    const stop = new SharedArrayBuffer(4);
    const workers = Array.from({ length: THREADS }, (_, index) =>
      startThread('microtask-loops.mjs', {
        ...{ handle: lock.handle, gate, rounds, stop },
        ...{ threads: THREADS, loops: 100, index },
      }),
    );
    const ends = Promise.all(workers.map((worker) => once(worker, 'exit')));
    const counts = new Int32Array(rounds);
    // Repeated, since the start of the threads can decide who comes first.
    for (let look = 0; look < 25; look++) {
      const seen = [...counts];
      await until(() => counts.every((count, i) => count > seen[i]! + 500), 'each thread got on');
    }
    Atomics.store(new Int32Array(stop), 0, 1);
    await ends;
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
  });
});
