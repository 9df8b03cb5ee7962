// The protocol of the JavaScript engine, step by step.
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { wordIndex } from '../../../lib/engine/contract/layout.js';
import { EXCLUSIVE_MODE, SHARED_MODE } from '../../../lib/engine/contract/mode.js';
import type { JavaScriptTable } from '../../../lib/engine/javascript/table.js';
import { acquire, granted, release, requestOf, tables, withoutLooks, type Acquired } from './tables.js';

describe('threads that share stripes', () => {
  withoutLooks();

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

  it('get them at the second release at the latest, although others come in between, and come back', async () => {
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

  it('keep readers out that come after a writer, and let those in together that came before', async () => {
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

  it('are let in as readers when a writer gives up that kept them out', async () => {
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

  it('pass them on within a thread for a short time only, when others wait', async () => {
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

  it('find none reserved for a thread that no longer waits, as it served itself', async () => {
    const [ours, theirs, third] = tables(3, 1) as [JavaScriptTable, JavaScriptTable, JavaScriptTable];
    const holder = acquire(theirs);
    const waiting = acquire(ours);
    release(holder);
    // Called, but something else of its thread comes first, so that it finds the stripe taken.
    expect(ours.acquireSync(requestOf(0, 0)).status).toBe('granted');
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
});
