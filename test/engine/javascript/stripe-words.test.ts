// What one thread of the JavaScript engine writes into the word of a stripe, and notes of it.
import { describe, expect, it } from 'vitest';
import { createMemory } from '../../../lib/engine/contract/header.js';
import { ENGINE_JAVASCRIPT } from '../../../lib/engine/contract/layout.js';
import { QUEUED, SHARED } from '../../../lib/engine/contract/lock-word.js';
import { EXCLUSIVE_MODE, type Mode, SHARED_MODE } from '../../../lib/engine/contract/mode.js';
import { StripeWords } from '../../../lib/engine/javascript/stripe-words.js';

const SLOT = 7;

function twoThreads(): [StripeWords, StripeWords] {
  const memory = new Int32Array(createMemory(ENGINE_JAVASCRIPT, { stripes: 1, exact: false, limit: 1 }));
  return [new StripeWords(memory, SLOT), new StripeWords(memory, SLOT + 1)];
}

describe('the word of a stripe', () => {
  it('names its only holder, or counts its holders, each of which is noted in its thread', () => {
    const [ours, theirs] = twoThreads();
    expect(ours.arrive(0, SHARED_MODE)).toBe(true);
    expect(theirs.arrive(0, SHARED_MODE)).toBe(true);
    expect(theirs.arrive(0, EXCLUSIVE_MODE)).toBe(false);
    expect([ours.load(0), ours.sharesOf(0), theirs.sharesOf(0)]).toEqual([SHARED | 2, 1, 1]);
    const [alone, other] = twoThreads();
    expect(alone.arrive(0, EXCLUSIVE_MODE)).toBe(true);
    expect(other.arrive(0, SHARED_MODE)).toBe(false);
    expect([alone.load(0), alone.isOwn(0), other.isOwn(0)]).toEqual([SLOT, true, false]);
  });

  const handOvers: [from: Mode, to: Mode, word: number, shares: number][] = [
    [EXCLUSIVE_MODE, EXCLUSIVE_MODE, SLOT, 0],
    [EXCLUSIVE_MODE, SHARED_MODE, SHARED | 1, 1],
    [SHARED_MODE, EXCLUSIVE_MODE, SLOT, 0],
    [SHARED_MODE, SHARED_MODE, SHARED | 1, 1],
  ];
  for (const [from, to, word, shares] of handOvers) {
    it(`goes from the last holder to a waiter of its thread, still waited for: ${from.name} to ${to.name}`, () => {
      const [ours] = twoThreads();
      ours.arrive(0, from);
      expect(ours.handOver(0, from, to)).toBe(true);
      expect([ours.load(0), ours.sharesOf(0)]).toEqual([word | QUEUED, shares]);
    });
  }

  it('is not handed over while other readers hold the stripe', () => {
    const [ours, theirs] = twoThreads();
    ours.arrive(0, SHARED_MODE);
    theirs.arrive(0, SHARED_MODE);
    expect(ours.handOver(0, SHARED_MODE, EXCLUSIVE_MODE)).toBe(false);
    expect([ours.load(0), ours.sharesOf(0)]).toEqual([SHARED | 2, 1]);
  });
});
