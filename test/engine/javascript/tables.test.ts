// The protocol of the JavaScript engine, step by step: several tables on one memory in one thread. They cannot tell that
// they are not in several threads, and each runs only when the test lets it.
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { patience } from '../../../lib/engine/javascript/patience.js';
import { JavaScriptTable } from '../../../lib/engine/javascript/table.js';
import { thread } from '../../../lib/engine/javascript/thread.js';
import type { Outcome } from '../../../lib/engine/contract/engine.js';
import { createMemory } from '../../../lib/engine/contract/header.js';
import { ENGINE_JAVASCRIPT, wordIndex } from '../../../lib/engine/contract/layout.js';
import { HOLDER_MASK } from '../../../lib/engine/contract/lock-word.js';
import { EXCLUSIVE_MODE, SHARED_MODE, type Mode } from '../../../lib/engine/contract/mode.js';
import { wordsOf } from '../../support/handle-memory.mjs';
import { seedFor } from '../../support/seed.js';
import { startThread } from '../../support/threads.js';
import { until } from '../../support/waiting.js';
import { below, randomFrom } from '../../workers/random.mjs';

function makeLock(options?: { stripes?: number; timeout?: number }): StripedLock {
  return new StripedLock({ engine: 'javascript', ...options });
}

describe('threads that share stripes', () => {
  const given = { ...patience };
  beforeEach(() => {
    // Nothing is to depend on looking again.
    for (const name of Object.keys(patience) as (keyof typeof patience)[]) patience[name] = 3_600_000;
  });
  afterEach(() => void Object.assign(patience, given));

  interface Acquired {
    readonly table: JavaScriptTable;
    readonly stripes: readonly number[];
    readonly mode: Mode;
    outcome: Outcome | undefined;
    ticket: number;
    settle: (outcome: Outcome) => void;
  }

  function tables(count: number, stripes: number): JavaScriptTable[] {
    const memory = createMemory(ENGINE_JAVASCRIPT, stripes);
    return Array.from({ length: count }, (_, i) => new JavaScriptTable(memory, stripes, i + 1));
  }

  function acquire(
    table: JavaScriptTable,
    { stripes = [0], mode = EXCLUSIVE_MODE, timeout = Infinity } = {},
    onSettled: () => void = () => undefined,
  ): Acquired {
    if (mode.counted) table.openShares();
    const acquired: Acquired = {
      table,
      stripes,
      mode,
      outcome: undefined,
      ticket: -1,
      settle(outcome) {
        acquired.outcome = outcome;
        onSettled();
      },
    };
    const request = { stripes: acquired.stripes, taken: 0, mode, timeout, note: undefined };
    acquired.outcome = table.acquireAsync(request, acquired);
    return acquired;
  }

  function release({ table, stripes, mode }: Acquired): void {
    for (const stripe of stripes.toReversed()) table.release(stripe, mode);
  }

  async function granted(acquired: Acquired): Promise<void> {
    await until(() => acquired.outcome !== undefined, 'it is granted');
    expect(acquired.outcome).toEqual({ status: 'granted', abandoned: false });
  }

  it('get them in the order in which they asked, if nobody comes in between', async () => {
    const [first, ...others] = tables(6, 1) as [JavaScriptTable, ...JavaScriptTable[]];
    let holder = acquire(first);
    const waiting = others.map((table) => acquire(table));
    for (const next of waiting) {
      release(holder);
      await granted(next);
      expect(waiting.filter(({ outcome }) => outcome !== undefined)).toHaveLength(waiting.indexOf(next) + 1);
      holder = next;
    }
    release(holder);
    expect(first.stats()).toMatchObject({ held: 0, waiting: 0 });
  });

  it('get them in spite of others who come in between, and come back: at the second release', async () => {
    const [busy, patient] = tables(2, 1) as [JavaScriptTable, JavaScriptTable];
    let holder = acquire(busy);
    const waiting = acquire(patient);
    release(holder);
    // The other one was called, but did not run yet.
    holder = acquire(busy);
    expect(holder.outcome?.status).toBe('granted');
    await delay(5);
    expect(waiting.outcome).toBeUndefined();
    release(holder);
    // Now the stripe is reserved for it.
    holder = acquire(busy, { timeout: 0 });
    expect(holder.outcome?.status).toBe('timeout');
    holder = acquire(busy);
    await granted(waiting);
    expect(holder.outcome).toBeUndefined();
    release(waiting);
    await granted(holder);
    release(holder);
  });

  it('keep readers out who come after a writer, and let those in together who came before', async () => {
    const [a, b, c, d] = tables(4, 1) as [JavaScriptTable, JavaScriptTable, JavaScriptTable, JavaScriptTable];
    const holder = acquire(a);
    const readers = [acquire(b, { mode: SHARED_MODE }), acquire(c, { mode: SHARED_MODE })];
    const writer = acquire(d);
    release(holder);
    for (const reader of readers) await granted(reader);
    await delay(5);
    const late = acquire(a, { mode: SHARED_MODE });
    expect([writer.outcome, late.outcome]).toEqual([undefined, undefined]);
    for (const reader of readers) release(reader);
    await granted(writer);
    expect(late.outcome).toBeUndefined();
    release(writer);
    await granted(late);
    release(late);
  });

  it('are let in by a writer that gives up, which has kept other threads’ readers out', async () => {
    const [a, b, c] = tables(3, 1) as [JavaScriptTable, JavaScriptTable, JavaScriptTable];
    const reader = acquire(a, { mode: SHARED_MODE });
    const writer = acquire(b);
    const late = acquire(c, { mode: SHARED_MODE });
    await delay(5);
    expect(late.outcome).toBeUndefined();
    expect(b.cancel(writer)).toBe(true);
    await granted(late);
    // Nobody waits any more: the fast path is open again.
    expect(a.words[wordIndex(0)]).toBe(0x2000_0002);
    release(reader);
    release(late);
  });

  it('pass them within a thread for a while only, when others wait', async () => {
    const [ours, theirs] = tables(2, 1) as [JavaScriptTable, JavaScriptTable];
    let served = 0;
    const holder = acquire(ours);
    const again = (): void => {
      const next: Acquired = acquire(ours, {}, () => {
        served++;
        again();
        release(next);
      });
    };
    again();
    const other = acquire(theirs);
    release(holder);
    await granted(other);
    expect(served).toBeGreaterThan(0);
  });

  it('are not reserved for a thread that no longer waits, as it served itself', async () => {
    const [ours, theirs, third] = tables(3, 1) as [JavaScriptTable, JavaScriptTable, JavaScriptTable];
    const holder = acquire(theirs);
    const waiting = acquire(ours);
    release(holder);
    // Called, but something else of its thread comes first, so that it finds the stripe taken.
    const request = { stripes: [0], taken: 0, mode: EXCLUSIVE_MODE, timeout: 0, note: undefined };
    expect(ours.acquireSync(request).status).toBe('granted');
    await delay(5);
    ours.release(0, EXCLUSIVE_MODE);
    await granted(waiting);
    const behind = acquire(theirs);
    release(waiting);
    const passing = acquire(third, { timeout: 0 });
    expect(passing.outcome?.status).toBe('granted');
    release(passing);
    await granted(behind);
    release(behind);
  });

  it('do not keep what a thread cannot use that blocks for another lock', async () => {
    const [a, b] = tables(2, 2) as [JavaScriptTable, JavaScriptTable];
    const [holder, blocked] = tables(2, 1) as [JavaScriptTable, JavaScriptTable];
    const second = acquire(a, { stripes: [1] });
    const both = acquire(b, { stripes: [0, 1] });
    expect(acquire(a, { stripes: [0], timeout: 0 }).outcome?.status).toBe('timeout');
    const elsewhere = acquire(holder);
    // What other threads do while this one sleeps: they release what it waits for once they got the first stripe.
    const wait = Atomics.wait.bind(Atomics);
    let sleeps = 0;
    Atomics.wait = ((...args: Parameters<typeof wait>) => {
      sleeps++;
      const own = thread.blocked;
      thread.blocked = undefined;
      const first = acquire(a, { stripes: [0], timeout: 0 });
      const isFree = first.outcome?.status === 'granted';
      if (isFree) {
        release(first);
        release(elsewhere);
      }
      thread.blocked = own;
      return isFree ? 'ok' : wait(...args);
    }) as typeof Atomics.wait;
    const request = { stripes: [0], taken: 0, mode: EXCLUSIVE_MODE, timeout: 30_000, note: undefined };
    try {
      expect(blocked.acquireSync(request).status).toBe('granted');
    } finally {
      Atomics.wait = wait;
    }
    expect(sleeps).toBeGreaterThan(0);
    blocked.release(0, EXCLUSIVE_MODE);
    release(second);
    await granted(both);
    release(both);
    expect(a.stats()).toMatchObject({ held: 0, waiting: 0 });
  });

  it('lose no deadline where one was granted as its time ran out, and was then put off by a sync wait', async () => {
    const [ours, theirs] = tables(2, 3) as [JavaScriptTable, JavaScriptTable];
    const [, middle] = [0, 1, 2].map((stripe) => acquire(theirs, { stripes: [stripe] }));
    const wait = Atomics.wait.bind(Atomics);
    // All in one turn of the timer: the first makes the second's stripe free, and the third blocks.
    acquire(ours, { stripes: [0], timeout: 19 }, () => release(middle!));
    const second = acquire(ours, { stripes: [1], timeout: 20 });
    let taken: Acquired | undefined;
    const third = acquire(ours, { stripes: [0], timeout: 21 }, () => {
      // What another thread does while this one sleeps: it takes what was given back.
      Atomics.wait = ((...args: Parameters<typeof wait>) => {
        const own = thread.blocked;
        thread.blocked = undefined;
        if (taken?.outcome?.status !== 'granted') taken = acquire(theirs, { stripes: [1], timeout: 0 });
        thread.blocked = own;
        return wait(...args);
      }) as typeof Atomics.wait;
      // Long enough for a second sleep, before which it gives back what others wait for, on a busy machine, too.
      const request = { stripes: [2], taken: 0, mode: EXCLUSIVE_MODE, timeout: 500, note: undefined };
      try {
        expect(ours.acquireSync(request).status).toBe('timeout');
      } finally {
        Atomics.wait = wait;
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
    it(`miss no call because a thread ends that got it, or still would (${way})`, async () => {
      const lock = makeLock({ stripes: 2 });
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

  for (const stripes of [1, 3]) {
    it(`never hold them against the rules, and all get them, on ${stripes} stripes`, async () => {
      const random = randomFrom(seedFor(`tables on ${stripes} stripes`));
      const threads = tables(4, stripes);
      const holders = Array.from({ length: stripes }, () => ({ readers: 0, writers: 0 }));
      const held: Acquired[] = [];
      let pending: Acquired[] = [];
      const took = (acquired: Acquired): void => {
        held.push(acquired);
        for (const stripe of acquired.stripes) {
          const now = holders[stripe]!;
          if (acquired.mode.counted) now.readers++;
          else now.writers++;
          expect(now.writers === 0 || (now.writers === 1 && now.readers === 0)).toBe(true);
        }
      };
      const giveBack = (acquired: Acquired): void => {
        held.splice(held.indexOf(acquired), 1);
        for (const stripe of acquired.stripes)
          holders[stripe]![acquired.mode.counted ? 'readers' : 'writers']--;
        release(acquired);
      };
      const start = (): void => {
        const wanted = Array.from({ length: stripes }, (_, stripe) => stripe).filter(() => random() < 0.6);
        if (wanted.length === 0) wanted.push(below(random, stripes));
        const table = threads[below(random, threads.length)]!;
        const timeout = random() < 0.1 ? below(random, 4) : Infinity;
        const acquired = acquire(
          table,
          { stripes: wanted, mode: random() < 0.4 ? SHARED_MODE : EXCLUSIVE_MODE, timeout },
          () => {
            pending = pending.filter((other) => other !== acquired);
            if (acquired.outcome?.status === 'granted') took(acquired);
          },
        );
        if (acquired.outcome === undefined) pending.push(acquired);
        else if (acquired.outcome.status === 'granted') took(acquired);
      };
      for (let step = 0; step < 6000; step++) {
        const what = random();
        if (what < 0.4 && pending.length < 20) start();
        else if (what < 0.8 && held.length > 0) giveBack(held[below(random, held.length)]!);
        else if (what < 0.85 && pending.length > 0) {
          const acquired = pending[below(random, pending.length)]!;
          if (acquired.table.cancel(acquired)) pending = pending.filter((other) => other !== acquired);
        } else if (what < 0.86) {
          // A thread that blocks: what its async acquisitions were given goes back, and comes again.
          const request = {
            stripes: [0],
            taken: 0,
            mode: EXCLUSIVE_MODE,
            timeout: 0.5,
            note: undefined,
          };
          const table = threads[below(random, threads.length)]!;
          if (table.acquireSync(request).status === 'granted') table.release(0, EXCLUSIVE_MODE);
        } else if (what > 0.95) await delay(0);
      }
      while (held.length > 0 || pending.length > 0) {
        if (held.length > 0) giveBack(held[below(random, held.length)]!);
        else await until(() => held.length > 0 || pending.length === 0, 'one of those who wait is granted');
      }
      expect(threads[0]!.stats()).toMatchObject({ held: 0, waiting: 0 });
      const words = threads[0]!.words;
      await until(() => holders.every((_, stripe) => words[wordIndex(stripe)] === 0), 'all words are free');
    });
  }
});
