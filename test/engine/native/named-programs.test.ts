import { expect, it } from 'vitest';
import { runProgram } from '../../support/programs.js';

// The worker ends when its program does.
it.each([
  ['pending', ['granted', 'left: 0 0']],
  ['cancelled at once', ['true', 'left: 1 0']],
  ['held', ['held', 'left: 1 0']],
  ['unavailable', ['unavailable', 'left: 1 0']],
  ['released before it is told', ['released', 'left: 1 0']],
])(
  'the event loop of a thread is kept alive by pending requests and nothing else: %s',
  async (name, lines) => {
    const { code, stdout, stderr } = await runProgram('named-keep-alive.mjs', [name]);
    expect({ code, stderr, lines: stdout.trim().split('\n') }).toEqual({ code: 0, stderr: '', lines });
  },
);

it('a stack overflow in a call for a named lock changes nothing, and loses no news', async () => {
  const { code, stdout, stderr } = await runProgram('named-stack-limit.mjs');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const scenes = JSON.parse(stdout) as Record<string, { done: number; failed: number }>;
  expect(Object.keys(scenes)).toEqual(['request', 'release', 'cancel', 'steal']);
  const total = (what: 'done' | 'failed'): number =>
    Object.values(scenes).reduce((sum, scene) => sum + scene[what], 0);
  expect(total('done')).toBeGreaterThan(0);
  // Not in each scene: V8 may optimize the recursion after its depth was measured.
  expect(total('failed')).toBeGreaterThan(0);
});
