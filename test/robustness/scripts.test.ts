import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';
import { expectPrompt } from '../support/prompt.js';

/** Milliseconds: the timeout of each script, and a slice of 20 ms after which it may be seen, with some room. */
const HONOURED = 100 + 20 + 30;

interface Timed {
  readonly times: number[];
  /** The same with `Atomics.wait`. */
  readonly atomics: number;
}

describe('a thread that blocks in acquireSync', () => {
  // In processes of their own, as what is left behind of an ended script could be their end.
  it.each(['main', 'worker'])(
    'ends with the timeout of its script of node:vm, and leaves nothing held or queued (%s thread)',
    { timeout: 60_000 },
    async (thread) => {
      const { code, signal, stdout, stderr } = await runProgram('vm-timeouts.mjs', [thread], [], 60_000);
      expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' });
      const { times, atomics } = JSON.parse(stdout) as Timed;
      console.log(`the same with Atomics.wait: ${atomics.toFixed(1)} ms`);
      for (const time of times) expect(time).toBeGreaterThanOrEqual(99);
      expectPrompt('timeout of 100 ms of a script that blocks', times, HONOURED);
    },
  );

  it.skipIf(process.platform === 'win32')(
    'ends with Ctrl+C where its script of node:vm asks for that',
    async () => {
      const program = fileURLToPath(new URL('../programs/ctrl-c.mjs', import.meta.url));
      const child = spawn(process.execPath, [program], {
        stdio: ['ignore', 'pipe', 'inherit'],
        timeout: 30_000,
        killSignal: 'SIGKILL',
      });
      let printed = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        printed += text;
        // It blocks, or is just about to: both must end.
        if (text.includes('blocks')) child.kill('SIGINT');
      });
      const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
      expect({ code, signal, printed }).toEqual({ code: 0, signal: null, printed: 'blocks\nended\n' });
    },
  );

  // What V8 does at an interrupt may run JavaScript in the middle of the wait.
  it('runs what a debugger asks for, which cannot block it, nor take what it waits with', async () => {
    const { code, signal, stdout, stderr } = await runProgram('debugged.mjs');
    expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' });
    const { elapsed, found } = JSON.parse(stdout) as { elapsed: number; found: unknown };
    console.log(`a debugger was answered after ${elapsed.toFixed(0)} ms`);
    expect(found).toEqual({
      waiting: 1,
      // Theirs, one of ours, and these three.
      free: 5,
      same: 'ERR_LOCK_TIMEOUT',
      both: 'ERR_LOCK_TIMEOUT',
      close: 'ERR_INVALID_ARG_TYPE',
      pending: true,
    });
  });
});
