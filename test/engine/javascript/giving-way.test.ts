// What a thread of the JavaScript engine gives back when it blocks or ends, step by step.
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { HOLDER_MASK } from '../../../lib/engine/contract/lock-word.js';
import { EXCLUSIVE_MODE } from '../../../lib/engine/contract/mode.js';
import { JavaScriptTable } from '../../../lib/engine/javascript/table.js';
import { wordsOf } from '../../support/handle-memory.mjs';
import { startThread } from '../../support/threads.js';
import { until } from '../../support/waiting.js';
import {
  acquire,
  granted,
  release,
  requestOf,
  tables,
  whileAsleep,
  withoutLooks,
  type Acquired,
} from './tables.js';

describe('a thread that blocks or ends', () => {
  withoutLooks();

  it('gives back what its acquisitions cannot use while it blocks for another lock', async () => {
    const [a, b] = tables(2, 2) as [JavaScriptTable, JavaScriptTable];
    const [holder, blocked] = tables(2, 1) as [JavaScriptTable, JavaScriptTable];
    const second = acquire(a, { stripes: [1] });
    const both = acquire(b, { stripes: [0, 1] });
    expect(acquire(a, { stripes: [0], timeout: 0 }).outcome?.status).toBe('timeout');
    const elsewhere = acquire(holder);
    // What other threads do while this one sleeps: they release what it waits for once they got the first stripe.
    let sleeps = 0;
    const stop = whileAsleep(() => {
      sleeps++;
      const first = acquire(a, { stripes: [0], timeout: 0 });
      const isFree = first.outcome?.status === 'granted';
      if (isFree) {
        release(first);
        release(elsewhere);
      }
      return isFree;
    });
    try {
      expect(blocked.acquireSync(requestOf(0, 30_000)).status).toBe('granted');
    } finally {
      stop();
    }
    expect(sleeps).toBeGreaterThan(0);
    blocked.release(0, EXCLUSIVE_MODE);
    release(second);
    await granted(both);
    release(both);
    expect(a.stats()).toMatchObject({ held: 0, waiting: 0 });
  });

  it('keeps the deadline of one that was granted as its time ran out, and was then put off by a sync wait', async () => {
    const [ours, theirs] = tables(2, 3) as [JavaScriptTable, JavaScriptTable];
    const [, middle] = [0, 1, 2].map((stripe) => acquire(theirs, { stripes: [stripe] }));
    // All in one turn of the timer: the first makes the second's stripe free, and the third blocks.
    acquire(ours, { stripes: [0], timeout: 19 }, () => release(middle!));
    const second = acquire(ours, { stripes: [1], timeout: 20 });
    let taken: Acquired | undefined;
    const third = acquire(ours, { stripes: [0], timeout: 21 }, () => {
      // What another thread does while this one sleeps: it takes what was given back.
      const stop = whileAsleep(() => {
        if (taken?.outcome?.status !== 'granted') taken = acquire(theirs, { stripes: [1], timeout: 0 });
        return false;
      });
      // Long enough for a second sleep, before which it gives back what others wait for, on a busy machine, too.
      try {
        expect(ours.acquireSync(requestOf(2, 500)).status).toBe('timeout');
      } finally {
        stop();
      }
    });
    const end = performance.now() + 30;
    while (performance.now() < end);
    await until(() => third.outcome !== undefined, 'the third has run out of time');
    expect(taken?.outcome?.status).toBe('granted');
    await until(() => second.outcome !== undefined, 'the second has an outcome');
    expect(second.outcome?.status).toBe('timeout');
  });

  for (const way of ['idle', 'pending']) {
    it(`leaves no other uncalled if it ends when it got a call, or is about to get one (${way})`, async () => {
      const lock = new StripedLock({ engine: 'javascript', stripes: 2 });
      const buffer = wordsOf(lock.handle).buffer as SharedArrayBuffer;
      const [low, high] = [0, 1].map((stripe) => {
        for (let key = 0; ; key++) if (lock.stripeOf(key) === stripe) return key;
      }) as [number, number];
      const elsewhere = new JavaScriptTable(buffer, 2, HOLDER_MASK);
      const holder = lock.acquireSync(high);
      const gate = new SharedArrayBuffer(8);
      const worker = startThread('javascript-leaver.mjs', {
        handle: lock.handle,
        way,
        keys: [low, high],
        gate,
      });
      await once(worker, 'message');
      // The thread that leaves has the lower one if it is pending, and comes first at the higher one.
      const behind = [0, 1].map((stripe) => acquire(elsewhere, { stripes: [stripe] }));
      const ended = once(worker, 'exit');
      await until(() => Atomics.load(new Int32Array(gate), 0) === 1, 'the thread has begun to end');
      try {
        await granted(behind[0]!);
        holder.release();
        await granted(behind[1]!);
      } finally {
        new Int32Array(gate)[1] = 1;
        Atomics.notify(new Int32Array(gate), 1);
        await ended;
      }
      for (const acquired of behind) release(acquired);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    });
  }
});
