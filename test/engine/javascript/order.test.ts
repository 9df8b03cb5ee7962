/// <reference lib="es2024.sharedmemory" />
// In which order the JavaScript engine serves those that wait for one stripe: each step of two threads, one after the other.
import { describe, expect, it } from 'vitest';
import { wordIndex } from '../../../unbundled/engine/contract/layout.js';
import { EXCLUSIVE_MODE, SHARED_MODE } from '../../../unbundled/engine/contract/mode.js';
import { FRONT, POLL, StripeLines, type Waiting } from '../../../unbundled/engine/javascript/stripe-lines.js';

const STRIPE = 0;

/** A waiter that began this many milliseconds ago, long enough to sleep in front. */
const waiting = (ago: number): Waiting => ({
  since: performance.now() - ago,
  isLasting: false,
  gaveWayTo: 0,
});

describe('a reader that is woken before a writer', () => {
  const setUp = (): {
    readonly lines: StripeLines;
    readonly sleep: () => Promise<string>;
  } => {
    const memory = new Int32Array(new SharedArrayBuffer(4 * wordIndex(1)));
    const lines = new StripeLines(memory, 1, 1);
    const sleep = (): Promise<string> => {
      const index = lines.place(STRIPE, FRONT);
      return Atomics.waitAsync(memory, index, Atomics.load(memory, index), Infinity).value as Promise<string>;
    };
    return { lines, sleep };
  };

  for (const holders of [EXCLUSIVE_MODE, SHARED_MODE]) {
    it(`wakes the writer instead if that has waited longer (held ${holders.name} before)`, async () => {
      const { lines, sleep } = setUp();
      expect(lines.arrive(STRIPE, holders, POLL)).toBe(true);
      const [writer, reader] = [waiting(50), waiting(30)];
      expect(lines.takeOrQueue(STRIPE, EXCLUSIVE_MODE, POLL, writer)).toBe(false);
      expect(lines.takeOrQueue(STRIPE, SHARED_MODE, POLL, reader)).toBe(false);
      // The writer sleeps again, behind the reader.
      const [first, second] = [sleep(), sleep()];
      lines.release(STRIPE, holders);
      lines.handOver(STRIPE);
      await first;
      expect(lines.takeOrQueue(STRIPE, SHARED_MODE, FRONT, reader)).toBe(false);
      await second;
      expect(lines.takeOrQueue(STRIPE, EXCLUSIVE_MODE, FRONT, writer)).toBe(true);
      lines.release(STRIPE, EXCLUSIVE_MODE);
      lines.handOver(STRIPE);
      expect(lines.takeOrQueue(STRIPE, SHARED_MODE, FRONT, reader)).toBe(true);
    });
  }

  it('takes the stripe if no thread sleeps there, or if it is woken again: the writer may have ended', async () => {
    for (const others of [0, 1]) {
      const { lines, sleep } = setUp();
      expect(lines.arrive(STRIPE, EXCLUSIVE_MODE, POLL)).toBe(true);
      const reader = waiting(30);
      expect(lines.takeOrQueue(STRIPE, EXCLUSIVE_MODE, POLL, waiting(50))).toBe(false);
      expect(lines.takeOrQueue(STRIPE, SHARED_MODE, POLL, reader)).toBe(false);
      const first = sleep();
      const other = others === 1 ? sleep() : undefined;
      lines.release(STRIPE, EXCLUSIVE_MODE);
      lines.handOver(STRIPE);
      await first;
      if (other !== undefined) {
        expect(lines.takeOrQueue(STRIPE, SHARED_MODE, FRONT, reader)).toBe(false);
        await other;
      }
      expect(lines.takeOrQueue(STRIPE, SHARED_MODE, FRONT, reader)).toBe(true);
      // The next reader does not give way to it.
      expect(lines.takeOrQueue(STRIPE, SHARED_MODE, FRONT, waiting(10))).toBe(true);
    }
  });

  it('goes first if it has waited longer', () => {
    const { lines } = setUp();
    expect(lines.arrive(STRIPE, EXCLUSIVE_MODE, POLL)).toBe(true);
    expect(lines.takeOrQueue(STRIPE, EXCLUSIVE_MODE, POLL, waiting(30))).toBe(false);
    lines.release(STRIPE, EXCLUSIVE_MODE);
    lines.handOver(STRIPE);
    expect(lines.takeOrQueue(STRIPE, SHARED_MODE, FRONT, waiting(50))).toBe(true);
  });
});
