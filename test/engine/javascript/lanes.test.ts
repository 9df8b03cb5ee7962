// How a stripe passes between the two lanes, step by step: nobody sleeps, and each head answers when the test lets it.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createMemory } from '../../../lib/engine/contract/header.js';
import { ENGINE_JAVASCRIPT } from '../../../lib/engine/contract/layout.js';
import { QUEUED } from '../../../lib/engine/contract/lock-word.js';
import { EXCLUSIVE_MODE } from '../../../lib/engine/contract/mode.js';
import { ASYNC_LANE, type Lane, SYNC_LANE, WAS_OFFERED } from '../../../lib/engine/javascript/lanes.js';
import { Stripes } from '../../../lib/engine/javascript/stripes.js';
import { patience } from '../../../lib/engine/javascript/patience.js';

/** A thread that wants the only stripe as a writer. */
class Writer {
  readonly stripes: Stripes;
  readonly #lane: Lane;
  #claim = 0;

  constructor(memory: Int32Array, slot: number, lane: Lane) {
    this.stripes = new Stripes(memory, slot);
    this.#lane = lane;
  }

  /** Becomes the head of its lane, while another thread holds the stripe. */
  claim(): void {
    this.#claim = this.stripes.lanes.claim(0, this.#lane, EXCLUSIVE_MODE);
    expect(this.#claim).not.toBe(0);
    expect(this.stripes.announce(0, EXCLUSIVE_MODE)).toBe(false);
  }

  get isOffered(): boolean {
    return this.stripes.lanes.openClaim(0, this.#lane) === 0;
  }

  take(): void {
    expect(this.stripes.takeCalled(0, EXCLUSIVE_MODE, this.#lane, WAS_OFFERED)).toBe(true);
    expect(this.stripes.lanes.dropClaim(0, this.#lane, this.#claim)).toBe(true);
  }

  release(): void {
    this.stripes.release(0, EXCLUSIVE_MODE);
  }
}

function writers(...lanes: Lane[]): Writer[] {
  const memory = new Int32Array(createMemory(ENGINE_JAVASCRIPT, { stripes: 1, exact: false, limit: 1 }));
  return lanes.map((lane, i) => new Writer(memory, i + 1, lane));
}

describe('the lanes of a stripe', () => {
  const given = { ...patience };
  // No waiter looks for itself, so that nothing depends on it.
  beforeAll(
    () => void Object.assign(patience, { head: 3_600_000, sleeper: 3_600_000, eventLoop: 3_600_000 }),
  );
  afterAll(() => void Object.assign(patience, given));

  it('take turns, although a head of the other lane always claims', () => {
    const [holder, sync, async, sync2, async2] = writers(
      SYNC_LANE,
      SYNC_LANE,
      ASYNC_LANE,
      SYNC_LANE,
      ASYNC_LANE,
    ) as [Writer, Writer, Writer, Writer, Writer];
    expect(holder.stripes.words.arrive(0, EXCLUSIVE_MODE)).toBe(true);
    sync.claim();
    async.claim();
    holder.release();
    expect([sync.isOffered, async.isOffered]).toEqual([true, false]);
    sync.take();
    sync2.claim();
    sync.release();
    expect([async.isOffered, sync2.isOffered]).toEqual([true, false]);
    async.take();
    async2.claim();
    async.release();
    expect([sync2.isOffered, async2.isOffered]).toEqual([true, false]);
    sync2.take();
    sync2.release();
    async2.take();
    async2.release();
    expect(holder.stripes.words.load(0)).toBe(0);
  });

  it('keep a stripe that is reserved for a head from everybody else, until that head withdraws', () => {
    const [holder, head, other] = writers(SYNC_LANE, SYNC_LANE, ASYNC_LANE) as [Writer, Writer, Writer];
    expect(holder.stripes.words.arrive(0, EXCLUSIVE_MODE)).toBe(true);
    head.claim();
    holder.release();
    expect(holder.stripes.words.load(0)).toBe(QUEUED);
    expect(other.stripes.isOpen(0, EXCLUSIVE_MODE)).toBe(false);
    expect(other.stripes.intrude(0, EXCLUSIVE_MODE)).toBe(false);
    head.stripes.withdraw(0, SYNC_LANE, head.stripes.lanes.claimIn(EXCLUSIVE_MODE));
    expect(other.stripes.isOpen(0, EXCLUSIVE_MODE)).toBe(true);
    expect(other.stripes.intrude(0, EXCLUSIVE_MODE)).toBe(true);
  });
});
