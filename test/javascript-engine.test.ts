import fc from 'fast-check';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { Deadlines, type Timed } from '../lib/engine/javascript/deadlines.js';
import { fnv1a } from '../lib/engine/javascript/hash.js';
import { patience } from '../lib/engine/javascript/patience.js';
import { JavaScriptTable } from '../lib/engine/javascript/table.js';
import type { Outcome } from '../lib/engine/engine.js';
import { createMemory } from '../lib/engine/header.js';
import { ENGINE_JAVASCRIPT, HEADER_INTS, wordIndex } from '../lib/engine/layout.js';
import { seedFor } from './support/seed.js';
import { runThreads, startThread } from './support/threads.js';
import { until, watch } from './support/waiting.js';
import { below, randomFrom } from './workers/random.mjs';

function makeLock(options?: { stripes?: number; timeout?: number }): StripedLock {
  return new StripedLock({ engine: 'javascript', ...options });
}

describe('the hash', () => {
  it('is FNV-1a: gives what its authors publish', () => {
    // From test_fnv.c of the reference implementation.
    const published: Record<string, number> = {
      '': 0x811c_9dc5,
      a: 0xe40c_292c,
      b: 0xe70c_2de5,
      c: 0xe60c_2c52,
      fo: 0x6222_e842,
      foo: 0xa9f3_7ed7,
      foob: 0x3f50_76ef,
      fooba: 0x39aa_a18a,
      foobar: 0xbf9c_f968,
      'chongo was here!\n': 0xd499_30d5,
    };
    for (const [text, hash] of Object.entries(published)) {
      expect(fnv1a(text)).toBe(hash);
      expect(fnv1a(Buffer.from(text))).toBe(hash);
    }
  });

  it('of a string is that of its UTF-8 bytes, whatever its characters', () => {
    const anyString = fc.string({
      unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)),
    });
    const surrogates = fc.string({
      unit: fc.constantFrom('a', 'é', '鍵', '\ud83d', '\udd11', '🔑', '\udbff', '\udfff'),
    });
    const same = (text: string): void => {
      expect(fnv1a(text)).toBe(fnv1a(new TextEncoder().encode(text)));
    };
    const seed = seedFor('hash of strings');
    fc.assert(fc.property(anyString, same), { seed, numRuns: 1000 });
    fc.assert(fc.property(surrogates, same), { seed, numRuns: 3000 });
    for (const edge of ['\x7f', '\x80', '\u07ff', '\u0800', '\uffff', '\u{10000}', '\u{10ffff}']) same(edge);
  });
});

describe('the deadlines', () => {
  it('come in their order, also when some are taken out in between', () => {
    const random = randomFrom(seedFor('deadlines'));
    const deadlines = new Deadlines<Timed>();
    const left = new Set<Timed>();
    for (let step = 0; step < 20_000; step++) {
      if (left.size === 0 || random() < 0.52) {
        const entry = { deadline: random() < 0.05 ? Infinity : below(random, 1000), place: -1 };
        deadlines.add(entry);
        left.add(entry);
      } else {
        const entries = [...left];
        const entry = random() < 0.5 ? deadlines.first : entries[below(random, entries.length)];
        if (entry === undefined) continue;
        deadlines.remove(entry);
        left.delete(entry);
      }
      if (step % 100 === 0) {
        const earliest = Math.min(...[...left].map(({ deadline }) => deadline));
        expect(deadlines.first?.deadline ?? Infinity).toBe(earliest);
      }
    }
  });
});

// Several tables on one memory in one thread: they cannot tell that they are not in several threads, and each runs
// only when the test lets it.
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
    readonly shared: boolean;
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
    { stripes = [0], shared = false, timeout = Infinity } = {},
    onSettled: () => void = () => undefined,
  ): Acquired {
    if (shared) table.openShares();
    const acquired: Acquired = {
      table,
      stripes,
      shared,
      outcome: undefined,
      ticket: -1,
      settle(outcome) {
        acquired.outcome = outcome;
        onSettled();
      },
    };
    const request = { stripes: acquired.stripes, taken: 0, shared, timeout, note: undefined };
    acquired.outcome = table.acquireAsync(request, acquired);
    return acquired;
  }

  function release({ table, stripes, shared }: Acquired): void {
    for (const stripe of stripes.toReversed()) table.release(stripe, shared);
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
    const readers = [acquire(b, { shared: true }), acquire(c, { shared: true })];
    const writer = acquire(d);
    release(holder);
    for (const reader of readers) await granted(reader);
    await delay(5);
    const late = acquire(a, { shared: true });
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
    const reader = acquire(a, { shared: true });
    const writer = acquire(b);
    const late = acquire(c, { shared: true });
    await delay(5);
    expect(late.outcome).toBeUndefined();
    expect(b.cancel(writer)).toBe(true);
    await granted(late);
    // Nobody waits any more: the fast path is open again.
    expect(new Int32Array(a.buffer)[wordIndex(0)]).toBe(0x2000_0002);
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
    const request = { stripes: [0], taken: 0, shared: false, timeout: 0, note: undefined };
    expect(ours.acquireSync(request).status).toBe('granted');
    await delay(5);
    ours.release(0, false);
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
      const first = acquire(a, { stripes: [0], timeout: 0 });
      if (first.outcome?.status !== 'granted') return wait(...args);
      release(first);
      release(elsewhere);
      return 'ok';
    }) as typeof Atomics.wait;
    const request = { stripes: [0], taken: 0, shared: false, timeout: 30_000, note: undefined };
    try {
      expect(blocked.acquireSync(request).status).toBe('granted');
    } finally {
      Atomics.wait = wait;
    }
    expect(sleeps).toBeGreaterThan(0);
    blocked.release(0, false);
    release(second);
    await granted(both);
    release(both);
    expect(a.stats()).toMatchObject({ held: 0, waiting: 0 });
  });

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
          if (acquired.shared) now.readers++;
          else now.writers++;
          expect(now.writers === 0 || (now.writers === 1 && now.readers === 0)).toBe(true);
        }
      };
      const giveBack = (acquired: Acquired): void => {
        held.splice(held.indexOf(acquired), 1);
        for (const stripe of acquired.stripes) holders[stripe]![acquired.shared ? 'readers' : 'writers']--;
        release(acquired);
      };
      const start = (): void => {
        const wanted = Array.from({ length: stripes }, (_, stripe) => stripe).filter(() => random() < 0.6);
        if (wanted.length === 0) wanted.push(below(random, stripes));
        const table = threads[below(random, threads.length)]!;
        const timeout = random() < 0.1 ? below(random, 4) : Infinity;
        const acquired = acquire(table, { stripes: wanted, shared: random() < 0.4, timeout }, () => {
          pending = pending.filter((other) => other !== acquired);
          if (acquired.outcome?.status === 'granted') took(acquired);
        });
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
            shared: false,
            timeout: 0.5,
            note: undefined,
          };
          const table = threads[below(random, threads.length)]!;
          if (table.acquireSync(request).status === 'granted') table.release(0, false);
        } else if (what > 0.95) await delay(0);
      }
      while (held.length > 0 || pending.length > 0) {
        if (held.length > 0) giveBack(held[below(random, held.length)]!);
        else await until(() => held.length > 0 || pending.length === 0, 'one of those who wait is granted');
      }
      expect(threads[0]!.stats()).toMatchObject({ held: 0, waiting: 0 });
      const words = new Int32Array(threads[0]!.buffer);
      await until(() => holders.every((_, stripe) => words[wordIndex(stripe)] === 0), 'all words are free');
    });
  }
});

describe('between threads', () => {
  interface Result {
    readonly manner: string;
    readonly added: number[];
    readonly torn: number;
    readonly longest: number;
  }

  const mixes: [manners: string[], stripes: number, sharedPercent: number, mostKeys: number][] = [
    [['sync', 'sync', 'sync', 'sync'], 1, 0, 1],
    [['sync', 'sync', 'sync', 'sync'], 3, 50, 3],
    [['async', 'async', 'async', 'async'], 1, 30, 1],
    [['keeping', 'async', 'keeping', 'async'], 4, 30, 4],
    [['sync', 'async', 'sync', 'keeping'], 1, 30, 1],
    [['mixed', 'mixed', 'mixed', 'mixed'], 1, 0, 1],
    [['mixed', 'mixed', 'mixed', 'mixed'], 6, 30, 4],
    [['mixed', 'sync', 'async', 'keeping'], 4, 30, 3],
  ];
  for (const [manners, stripes, sharedPercent, mostKeys] of mixes) {
    const what = `${manners.join(', ')} on ${stripes} stripes, ${sharedPercent} % shared, up to ${mostKeys} keys`;
    it(`no call and no update gets lost: ${what}`, async () => {
      const seed = seedFor(what);
      const lock = makeLock({ stripes, timeout: Infinity });
      const cells = new SharedArrayBuffer(8 * stripes);
      const gate = new SharedArrayBuffer(4);
      const threads = manners.length;
      const results = await runThreads<Result>(
        'javascript-stress.mjs',
        manners.map((manner, i) => ({
          ...{ handle: lock.handle, cells, gate, threads, manner, sharedPercent, mostKeys },
          ...{ rounds: 1500, calledOnly: true, seed: seed + i },
        })),
      );
      const counters = new Int32Array(cells);
      for (let stripe = 0; stripe < stripes; stripe++) {
        const added = results.reduce((sum, result) => sum + result.added[stripe]!, 0);
        expect([counters[2 * stripe], counters[2 * stripe + 1]]).toEqual([added, added]);
      }
      expect(results.map(({ torn }) => torn)).toEqual(results.map(() => 0));
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0, deadlocks: 0 });
    });
  }

  for (const way of ['sync', 'async'] as const) {
    it(`a ${way} waiter whose thread is ended holds up the others for a moment at most`, async () => {
      const lock = makeLock({ stripes: 1, timeout: 20_000 });
      for (let round = 0; round < 15; round++) {
        const workers = Array.from({ length: 2 }, () =>
          startThread('javascript-waiter.mjs', { handle: lock.handle, way }),
        );
        await Promise.all(workers.map((worker) => once(worker, 'message')));
        // Held by this thread while the others are ended, so that none of them ends as a holder.
        const guard = await lock.acquire('key');
        const behind = watch(lock.acquire('key'));
        await delay(round);
        await Promise.all(workers.map((worker) => worker.terminate()));
        guard.release();
        (await behind.promise).release();
        lock.acquireSync('key').release();
      }
      expect(lock.stats()).toMatchObject({ held: 0, timeouts: 0 });
    });
  }
});

describe('many pending acquisitions', () => {
  for (const stripes of [1, 100_000]) {
    it(`are cheap: 100,000 of them on ${stripes} stripes`, async () => {
      const count = 100_000;
      const lock = makeLock({ stripes, timeout: 60_000 });
      const all = Array.from({ length: count }, (_, key) => key);
      const holder = lock.acquireSync(all);
      let served = 0;
      const waiting = all.map(async (key) => {
        const guard = await lock.acquire(key);
        served++;
        guard.release();
      });
      // A turn of the event loop in which they are looked through, and nothing is found.
      await delay(120);
      expect(served).toBe(0);
      expect(lock.stats().waiting).toBe(count);
      holder.release();
      await Promise.all(waiting);
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0 });
    });
  }
});

describe('memory that somebody scribbled on', () => {
  it('makes acquisitions fail or succeed, in time, and crashes nothing', async () => {
    const random = randomFrom(seedFor('scribbling'));
    for (let round = 0; round < 60; round++) {
      const lock = makeLock({ stripes: 4, timeout: 3 });
      const buffer = Object.values(lock.handle).find((value) => value instanceof SharedArrayBuffer)!;
      const words = new Int32Array(buffer);
      const held: { release(): void }[] = [];
      const work: Promise<unknown>[] = [];
      for (let step = 0; step < 30; step++) {
        const place = HEADER_INTS + below(random, words.length - HEADER_INTS);
        words[place] = random() < 0.5 ? below(random, 4) << 29 : Math.floor((random() - 0.5) * 2 ** 32);
        const mode = random() < 0.5 ? 'shared' : 'exclusive';
        const keep = (guard: { release(): void }): void => void held.push(guard);
        if (random() < 0.7) work.push(lock.acquire([1, 2, 3, 4], { mode }).then(keep, () => undefined));
        else {
          try {
            keep(lock.acquireSync(below(random, 9), { mode }));
          } catch (error) {
            expect(error).toMatchObject({ code: expect.stringMatching(/^ERR_LOCK_/) as string });
          }
        }
        if (random() < 0.5) held.pop()?.release();
        lock.inspect();
      }
      await Promise.all(work);
      for (const guard of held) guard.release();
    }
  });
});
