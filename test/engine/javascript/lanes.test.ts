// How a stripe passes between the two lanes, step by step: nobody sleeps, and each head answers when the test lets it.
import { describe, expect, it } from 'vitest';
import { createMemory } from '../../../lib/engine/contract/header.js';
import { ENGINE_JAVASCRIPT } from '../../../lib/engine/contract/layout.js';
import { QUEUED, SHARED } from '../../../lib/engine/contract/lock-word.js';
import { EXCLUSIVE_MODE, SHARED_MODE } from '../../../lib/engine/contract/mode.js';
import {
  ASYNC_LANE,
  type Lane,
  LOOKS,
  SYNC_LANE,
  WAS_OFFERED,
} from '../../../lib/engine/javascript/lanes.js';
import { Stripes } from '../../../lib/engine/javascript/stripes.js';
import { until } from '../../support/waiting.js';
import { withoutLooks } from './tables.js';

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
  withoutLooks();

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

  it('keep readers out for a head that is a writer, but not for one that is a reader', () => {
    const [holder, head] = writers(SYNC_LANE, SYNC_LANE) as [Writer, Writer];
    const { words, lanes } = head.stripes;
    expect(holder.stripes.words.arrive(0, SHARED_MODE)).toBe(true);
    const reads = lanes.claim(0, SYNC_LANE, SHARED_MODE);
    lanes.writerWaits(0);
    expect(lanes.keepsReadersOut(0, ASYNC_LANE, LOOKS)).toBe(false);
    lanes.dropClaim(0, SYNC_LANE, reads);
    head.claim();
    expect(lanes.keepsReadersOut(0, ASYNC_LANE, LOOKS)).toBe(true);
    expect(words.load(0)).toBe(SHARED | 1 | QUEUED);
  });
});

describe('a reservation that its head does not act on', () => {
  it('lasts for a while, and then whoever comes by takes the stripe', async () => {
    const [holder, head, other] = writers(SYNC_LANE, SYNC_LANE, ASYNC_LANE) as [Writer, Writer, Writer];
    expect(holder.stripes.words.arrive(0, EXCLUSIVE_MODE)).toBe(true);
    head.claim();
    holder.release();
    expect(holder.stripes.words.load(0)).toBe(QUEUED);
    await until(() => other.stripes.isOpen(0, EXCLUSIVE_MODE), 'the reservation is over');
    expect(other.stripes.intrude(0, EXCLUSIVE_MODE)).toBe(true);
    // The release calls those who wait, among them a head that was slow.
    expect(other.stripes.words.load(0) & QUEUED).toBe(QUEUED);
  });
});
