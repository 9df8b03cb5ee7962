// How permits pass between the threads of the JavaScript engine: step by step, and at random.
import { describe, expect, it } from 'vitest';
import { createMemory } from '../../../lib/engine/contract/header.js';
import { ENGINE_JAVASCRIPT } from '../../../lib/engine/contract/layout.js';
import { QUEUED, SHARED } from '../../../lib/engine/contract/lock-word.js';
import { PERMIT_MODE } from '../../../lib/engine/contract/mode.js';
import {
  ASYNC_LANE,
  CALLED,
  CLAIM,
  DOZES,
  EVENTS,
  laneIndex,
  OFFERED,
  OFFERED_AT,
  SLEEPERS,
  SYNC_LANE,
  WAS_OFFERED,
} from '../../../lib/engine/javascript/lanes.js';
import { stamp } from '../../../lib/engine/javascript/host.js';
import { Stripes } from '../../../lib/engine/javascript/stripes.js';
import { seedFor } from '../../support/seed.js';
import { until } from '../../support/waiting.js';
import { randomFrom } from '../../workers/random.mjs';
import { useAtRandom } from './random-use.js';
import { tables, withoutLooks } from './tables.js';

/** Threads that use one stripe with so many permits. */
function threads(count: number, limit: number): Stripes[] {
  const memory = new Int32Array(createMemory(ENGINE_JAVASCRIPT, { stripes: 1, exact: false, limit }));
  return Array.from({ length: count }, (_, i) => new Stripes(memory, i + 1, limit));
}

/** As if somebody slept in the async lane. Returns how often those there were called since. */
function sleeper({ memory }: Stripes['lanes']): () => number {
  const index = laneIndex(0, ASYNC_LANE);
  Atomics.add(memory, index + SLEEPERS, 1);
  const before = Atomics.load(memory, index + EVENTS);
  return () => Atomics.load(memory, index + EVENTS) - before;
}

/** Becomes the head of its lane, while all permits are taken. Returns the claim. */
function claim(stripes: Stripes, lane: typeof SYNC_LANE | typeof ASYNC_LANE): number {
  const mine = stripes.lanes.claim(0, lane, PERMIT_MODE);
  expect(mine).not.toBe(0);
  expect(stripes.announce(0, PERMIT_MODE)).toBe(false);
  return mine;
}

describe('the permits of a stripe', () => {
  it('are as many as the limit', () => {
    const [one, other] = threads(2, 3) as [Stripes, Stripes];
    expect(one.words.arrive(0, PERMIT_MODE)).toBe(true);
    expect(other.intrude(0, PERMIT_MODE)).toBe(true);
    expect(one.words.arrive(0, PERMIT_MODE)).toBe(true);
    expect(one.words.load(0)).toBe(SHARED | 3);
    expect([one, other].map((stripes) => stripes.intrude(0, PERMIT_MODE))).toEqual([false, false]);
    expect(other.takeCalled(0, PERMIT_MODE, SYNC_LANE, WAS_OFFERED)).toBe(false);
    other.release(0, PERMIT_MODE);
    other.release(0, PERMIT_MODE);
    expect(one.words.load(0)).toBe(SHARED | 2);
    one.release(0, PERMIT_MODE);
    one.release(0, PERMIT_MODE);
    expect(one.words.load(0)).toBe(0);
  });

  it('go from one holder of a thread to the next, whoever has the others', () => {
    const [one, other] = threads(2, 2) as [Stripes, Stripes];
    expect(one.words.handOver(0, PERMIT_MODE, PERMIT_MODE)).toBe(false);
    expect(one.words.arrive(0, PERMIT_MODE)).toBe(true);
    expect(other.words.arrive(0, PERMIT_MODE)).toBe(true);
    expect(one.words.handOver(0, PERMIT_MODE, PERMIT_MODE)).toBe(true);
    expect(one.words.load(0)).toBe(SHARED | 2 | QUEUED);
    expect([one, other].map(({ words }) => words.sharesOf(0))).toEqual([1, 1]);
  });

  it('are kept for a head that was offered one, from newcomers and from those who were only called', () => {
    const [holder, head, other, late] = threads(4, 2) as [Stripes, Stripes, Stripes, Stripes];
    for (let i = 0; i < 2; i++) expect(holder.words.arrive(0, PERMIT_MODE)).toBe(true);
    const mine = claim(head, SYNC_LANE);
    holder.release(0, PERMIT_MODE);
    expect(holder.words.load(0)).toBe(SHARED | 1 | QUEUED);
    expect(late.isOpen(0, PERMIT_MODE)).toBe(false);
    expect(late.intrude(0, PERMIT_MODE)).toBe(false);
    expect(other.takeCalled(0, PERMIT_MODE, ASYNC_LANE, CALLED)).toBe(false);
    // The other permit, too, as nobody can tell them apart.
    holder.release(0, PERMIT_MODE);
    expect(holder.words.load(0)).toBe(QUEUED);
    expect(late.intrude(0, PERMIT_MODE)).toBe(false);
    expect(head.takeCalled(0, PERMIT_MODE, SYNC_LANE, WAS_OFFERED)).toBe(true);
    head.lanes.dropClaim(0, SYNC_LANE, mine);
    head.entered(0, PERMIT_MODE);
    expect(head.words.load(0)).toBe(SHARED | 1);
    expect(late.intrude(0, PERMIT_MODE)).toBe(true);
  });

  it('find the next head when one of them has got one', () => {
    const [holder, sync, async] = threads(3, 3) as [Stripes, Stripes, Stripes];
    for (let i = 0; i < 3; i++) expect(holder.words.arrive(0, PERMIT_MODE)).toBe(true);
    const first = claim(sync, SYNC_LANE);
    for (let i = 0; i < 2; i++) holder.release(0, PERMIT_MODE);
    claim(async, ASYNC_LANE);
    expect(sync.takeCalled(0, PERMIT_MODE, SYNC_LANE, WAS_OFFERED)).toBe(true);
    sync.lanes.dropClaim(0, SYNC_LANE, first);
    expect(async.lanes.openClaim(0, ASYNC_LANE)).not.toBe(0);
    sync.entered(0, PERMIT_MODE);
    expect(async.lanes.openClaim(0, ASYNC_LANE)).toBe(0);
    expect(async.takeCalled(0, PERMIT_MODE, ASYNC_LANE, WAS_OFFERED)).toBe(true);
  });

  it('are offered once more to a head that answered in vain while the next one became free', () => {
    const [holder, head, thief] = threads(3, 2) as [Stripes, Stripes, Stripes];
    const { memory } = head.lanes;
    const index = laneIndex(0, SYNC_LANE) + CLAIM;
    for (let i = 0; i < 2; i++) expect(holder.words.arrive(0, PERMIT_MODE)).toBe(true);
    const mine = claim(head, SYNC_LANE);
    holder.release(0, PERMIT_MODE);
    expect(thief.takeCalled(0, PERMIT_MODE, ASYNC_LANE, WAS_OFFERED)).toBe(true);
    expect(head.takeCalled(0, PERMIT_MODE, SYNC_LANE, WAS_OFFERED)).toBe(false);
    // Its claim is not open, so this release offers nothing.
    holder.release(0, PERMIT_MODE);
    expect(Atomics.compareExchange(memory, index, mine | OFFERED, mine)).toBe(mine | OFFERED);
    head.declined(0);
    expect(Atomics.load(memory, index)).toBe(mine | OFFERED);
    expect(head.takeCalled(0, PERMIT_MODE, SYNC_LANE, WAS_OFFERED)).toBe(true);
  });

  it('are open again when a head that was offered one withdraws, or does not come', async () => {
    const [holder, head, other] = threads(3, 2) as [Stripes, Stripes, Stripes];
    for (let i = 0; i < 2; i++) expect(holder.words.arrive(0, PERMIT_MODE)).toBe(true);
    const mine = claim(head, SYNC_LANE);
    holder.release(0, PERMIT_MODE);
    expect(other.isOpen(0, PERMIT_MODE)).toBe(false);
    head.withdraw(0, SYNC_LANE, mine);
    expect(other.words.load(0)).toBe(SHARED | 1);
    expect(other.words.arrive(0, PERMIT_MODE)).toBe(true);
    claim(head, SYNC_LANE);
    holder.release(0, PERMIT_MODE);
    expect(other.isOpen(0, PERMIT_MODE)).toBe(false);
    await until(() => other.isOpen(0, PERMIT_MODE), 'the reservation is over');
    expect(other.intrude(0, PERMIT_MODE)).toBe(true);
  });
});

describe('a permit that a head was offered', () => {
  /** One of two permits is free, and offered to the head; the other one is held. */
  const offered = (): { all: Stripes[]; mine: number; calls: () => number } => {
    const all = threads(3, 2);
    const [holder, head, other] = all as [Stripes, Stripes, Stripes];
    for (let i = 0; i < 2; i++) expect(holder.words.arrive(0, PERMIT_MODE)).toBe(true);
    const mine = claim(head, SYNC_LANE);
    holder.release(0, PERMIT_MODE);
    return { all, mine, calls: sleeper(other.lanes) };
  };

  it('and that is gone when it withdraws, is waited for by the others', () => {
    const { all, mine, calls } = offered();
    const [holder, head, other] = all as [Stripes, Stripes, Stripes];
    // As after the time for which it was kept.
    expect(other.takeCalled(0, PERMIT_MODE, ASYNC_LANE, WAS_OFFERED)).toBe(true);
    head.withdraw(0, SYNC_LANE, mine);
    expect(holder.words.load(0)).toBe(SHARED | 2 | QUEUED);
    expect(calls()).toBe(0);
    holder.release(0, PERMIT_MODE);
    expect(calls()).toBe(1);
  });

  it('and that it has taken, keeps nobody from the next one', () => {
    const { all, mine, calls } = offered();
    const [holder, head, other] = all as [Stripes, Stripes, Stripes];
    expect(head.takeCalled(0, PERMIT_MODE, SYNC_LANE, WAS_OFFERED)).toBe(true);
    head.lanes.dropClaim(0, SYNC_LANE, mine);
    head.entered(0, PERMIT_MODE);
    holder.release(0, PERMIT_MODE);
    expect(calls()).toBe(1);
    expect(other.isOpen(0, PERMIT_MODE)).toBe(true);
    expect(other.intrude(0, PERMIT_MODE)).toBe(true);
  });
});

describe('permits that a dead thread would have got', () => {
  it('are free, and those behind are called, if it died in its sleep as the head', () => {
    const [holder, head, other] = threads(3, 3) as [Stripes, Stripes, Stripes];
    const { memory } = head.lanes;
    for (let i = 0; i < 3; i++) expect(holder.words.arrive(0, PERMIT_MODE)).toBe(true);
    claim(head, SYNC_LANE);
    Atomics.store(memory, laneIndex(0, SYNC_LANE) + DOZES, 1);
    const calls = sleeper(other.lanes);
    holder.release(0, PERMIT_MODE);
    expect(Atomics.load(memory, laneIndex(0, SYNC_LANE) + CLAIM)).toBe(0);
    expect(holder.words.load(0)).toBe(SHARED | 2);
    expect(calls()).toBe(1);
    expect(other.takeCalled(0, PERMIT_MODE, ASYNC_LANE, CALLED)).toBe(true);
    // It is not known yet that nobody is left to wait.
    expect(holder.words.load(0)).toBe(SHARED | 3 | QUEUED);
    Atomics.sub(memory, laneIndex(0, ASYNC_LANE) + SLEEPERS, 1);
    other.release(0, PERMIT_MODE);
    for (let i = 0; i < 2; i++) holder.release(0, PERMIT_MODE);
    expect(holder.words.load(0)).toBe(0);
  });

  it('are kept for a head that died awake while it may answer, and then go to those behind it', async () => {
    const [holder, head, other] = threads(3, 3) as [Stripes, Stripes, Stripes];
    const { memory } = head.lanes;
    const index = laneIndex(0, SYNC_LANE) + CLAIM;
    for (let i = 0; i < 3; i++) expect(holder.words.arrive(0, PERMIT_MODE)).toBe(true);
    const mine = claim(head, SYNC_LANE);
    // Two are free, and all are kept: nobody can tell them apart.
    for (let i = 0; i < 2; i++) holder.release(0, PERMIT_MODE);
    const calls = sleeper(other.lanes);
    Atomics.store(memory, laneIndex(0, SYNC_LANE) + OFFERED_AT, stamp());
    other.refresh(0);
    expect(Atomics.load(memory, index)).toBe(mine | OFFERED);
    expect(holder.words.load(0)).toBe(SHARED | 1 | QUEUED);
    expect(calls()).toBe(0);
    await until(() => {
      other.refresh(0);
      return Atomics.load(memory, index) === 0;
    }, 'the offer lapses');
    expect(holder.words.load(0)).toBe(SHARED | 1);
    expect(calls()).toBe(1);
    // What the others still have does not count as free.
    for (let i = 0; i < 2; i++) expect(other.intrude(0, PERMIT_MODE)).toBe(true);
    expect(other.announce(0, PERMIT_MODE)).toBe(false);
    other.refresh(0);
    expect(holder.words.load(0)).toBe(SHARED | 3 | QUEUED);
  });
});

describe('threads that share permits, and never look for themselves', () => {
  withoutLooks();

  for (const [stripes, limit] of [
    [1, 2],
    [3, 2],
    [2, 5],
  ] as const) {
    it(`never have more than ${limit}, and all get them, on ${stripes} stripes`, async () => {
      const random = randomFrom(seedFor(`${limit} permits on ${stripes} stripes`));
      const all = tables(4, stripes, limit);
      const inside = Array.from({ length: stripes }, () => 0);
      await useAtRandom({
        random,
        tables: all,
        stripes,
        mode: () => PERMIT_MODE,
        blocking: PERMIT_MODE,
        took: (stripe) => expect(++inside[stripe]!).toBeLessThanOrEqual(limit),
        gaveBack: (stripe) => inside[stripe]!--,
      });
      expect(all.map((table) => table.stats())).toEqual(
        all.map(() => expect.objectContaining({ held: 0, waiting: 0 }) as unknown),
      );
    });
  }
});
