// After a stack overflow in a call of the JavaScript engine, no thread gets a key that another holds.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { KeyedLock, StripedLock, type Guard, type LockMode } from 'stripelock';
import { runProgram } from '../../support/programs.js';

/** Frames of a small function: from no room on the stack to enough for each call. */
const FRAMES = 1500;
/** Milliseconds: many times what a test or its program takes on a busy machine. */
const HANGS = 120_000;

/** Calls `last` at each of the last frames before the stack overflows. */
function descend(last: () => void): number {
  let room: number;
  try {
    room = descend(last) + 1;
  } catch {
    room = 0;
  }
  if (room < FRAMES) {
    try {
      last();
    } catch (error) {
      if (!(error instanceof RangeError) && (error as { code?: string }).code === undefined) throw error;
    }
  }
  return room;
}

describe.each(['StripedLock', 'KeyedLock'] as const)('a %s near a stack overflow', (kind) => {
  it('never has a holder besides an exclusive one', { timeout: HANGS }, async () => {
    let granted = 0;
    for (let round = 0; round < 20; round++) {
      const lock =
        kind === 'KeyedLock'
          ? new KeyedLock({ engine: 'javascript', capacity: 16 })
          : new StripedLock({ engine: 'javascript', stripes: 2 });
      const guards = new Set<Guard>();
      const check = (): void => {
        for (const stripe of [0, 1]) {
          const holders = [...guards].filter(({ held, stripes }) => held && stripes.includes(stripe));
          const exclusive = holders.filter(({ mode }) => mode === 'exclusive').length;
          expect(exclusive === 0 || holders.length === 1, `round ${round}`).toBe(true);
        }
      };
      const note = (guard: Guard | undefined): void => {
        if (guard !== undefined) guards.add(guard);
        granted++;
        check();
      };
      let calls = 0;
      const call = (): void => {
        const mode: LockMode = calls % 3 === 0 ? 'exclusive' : 'shared';
        const keys = calls % 2 === 0 ? [0, 1, 2] : 1;
        calls++;
        for (const guard of guards) {
          guard.release();
          guards.delete(guard);
          if (calls % 4 !== 0) break;
        }
        if (calls % 5 === 0) note(lock.tryAcquire(keys, { mode }));
        else lock.acquire(keys, { mode, timeout: 20 }).then(note, () => undefined);
      };
      // To compile a function takes more stack than to call it.
      for (let i = 0; i < 10; i++) call();
      for (let turn = 0; turn < 5; turn++) {
        descend(call);
        check();
        await nextTurn();
        check();
      }
      for (const guard of guards) guard.release();
    }
    expect(granted).toBeGreaterThan(100);
  });
});

describe('a timeout after a stack overflow', () => {
  // In a separate process: the timers of a test runner can set right what the overflow has done to those of Node.
  it.each(['StripedLock', 'KeyedLock'])('passes (%s)', { timeout: HANGS + 10_000 }, async (kind) => {
    const { code, stdout } = await runProgram('overflown-deadlines.mjs', [kind], [], HANGS);
    expect({ code, stdout: stdout.trim() }).toEqual({ code: 0, stdout: '120' });
  });
});
