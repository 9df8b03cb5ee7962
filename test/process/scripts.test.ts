import { expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';
import { lockPath } from './peer.js';

// In separate processes, as the remains of an ended script could crash them.
async function found(scene: string, nodeOptions: readonly string[] = []): Promise<unknown> {
  const { code, signal, stdout, stderr } = await runProgram(
    'process-scripts.mjs',
    [lockPath(), scene],
    nodeOptions,
    60_000,
  );
  // Node reports overflows in its own callbacks, too.
  expect({ code, signal, stderr: nodeOptions.length > 0 ? '' : stderr }).toEqual({
    code: 0,
    signal: null,
    stderr: '',
  });
  return JSON.parse(stdout);
}

it('a grant to the event loop of a thread is delivered after a script that blocked the thread has timed out', async () => {
  expect(await found('wait')).toEqual({ granted: true });
});

it('a script that has timed out gets no key that is released while its thread is still blocked for it', async () => {
  expect(await found('end')).toEqual({ free: true });
});

it('an acquisition whose script ended before it had the promise gives its grant back, and is not pending', async () => {
  expect(await found('begin')).toEqual({ free: true, pending: 0 });
});

it(
  'no grant is lost near a stack overflow, and no failed acquisition stays pending',
  { timeout: 70_000 },
  async () => {
    const { done, failed, lost } = (await found('overflow', ['--stack-size=256'])) as {
      done: number;
      failed: number;
      lost: string[];
    };
    expect(lost).toEqual([]);
    // Otherwise the calls were not near a stack overflow.
    expect(failed).toBeGreaterThan(0);
    expect(done).toBeGreaterThan(50);
  },
);
