import { describe, expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';
import type { EngineUnderTest, Suite } from '../support/engine.js';

/**
 * Runs a scenario in a separate process, in which nothing but the lock can keep the event loop alive. A process that
 * does not end by itself is killed, and its code says so.
 */
async function run(engine: EngineUnderTest, scenario: string): Promise<string> {
  const { code, signal, stdout, stderr } = await runProgram('keep-alive.mjs', [engine.name, scenario]);
  expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' });
  return stdout.trim();
}

export const keepAliveSuite: Suite = (_makeLock, engine) => {
  describe('the event loop', () => {
    it('is kept alive by a pending acquisition until it is granted', async () => {
      expect(await run(engine, 'granted-by-a-thread')).toBe('granted');
    });

    it('is kept alive by a pending acquisition until it times out', async () => {
      expect(await run(engine, 'timeout')).toBe('ERR_LOCK_TIMEOUT');
    });

    it('of a worker thread is kept alive by its pending acquisition', async () => {
      expect(await run(engine, 'pending-in-a-worker')).toBe('granted in the worker');
    });

    it('may end when the last pending acquisition is aborted', async () => {
      expect(await run(engine, 'aborted')).toBe('aborted');
    });

    it('may end when the last pending acquisition was granted', async () => {
      expect(await run(engine, 'granted-by-itself')).toBe('granted 3');
    });

    it('is kept alive again by the next pending acquisition', async () => {
      expect(await run(engine, 'again')).toBe('first second third');
    });
  });
};

export const idleLoopSuite: Suite = (_makeLock, engine) => {
  describe('the event loop', () => {
    it('is not kept alive by a lock that is idle, or by guards that are held', async () => {
      expect(await run(engine, 'idle')).toBe('done');
    });

    it('of idle worker threads that opened the lock ends by itself', async () => {
      expect(await run(engine, 'idle-workers')).toBe('4 ended');
    });
  });
};
