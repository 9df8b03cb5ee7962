import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runProgram } from '../support/programs.js';
import { expectPrompt } from '../support/prompt.js';

/** Milliseconds: the timeout of each script, a slice of 20 ms after which it may be noticed, and some room. */
const HONOURED = 100 + 20 + 30;

interface Timed {
  readonly times: number[];
  /** The same with `Atomics.wait`. */
  readonly atomics: number;
}

describe('a thread that blocks in acquireSync', () => {
  // In separate processes, because the remains of an ended script could crash them.
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
    'ends with Ctrl+C if its script of node:vm asks for that',
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
        // It is blocked, or about to block: it must end in both cases.
        if (text.includes('blocks')) child.kill('SIGINT');
      });
      const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
      expect({ code, signal, printed }).toEqual({ code: 0, signal: null, printed: 'blocks\nended\n' });
    },
  );

  // At an interrupt V8 may run JavaScript in the middle of the wait.
  it('runs code of a debugger, which cannot block it or change what it waits for', async () => {
    const { code, signal, stdout, stderr } = await runProgram('debugged.mjs');
    expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' });
    const { elapsed, found } = JSON.parse(stdout) as { elapsed: number; found: unknown };
    console.log(`a debugger was answered after ${elapsed.toFixed(0)} ms`);
    expect(found).toEqual({
      waiting: 2,
      // The other thread's, one of this thread, and these three.
      free: 5,
      same: 'ERR_LOCK_TIMEOUT',
      both: 'ERR_LOCK_TIMEOUT',
      close: 'ERR_INVALID_ARG_TYPE',
      pending: true,
    });
  });

  // The second key is too long to be remembered.
  it.each(['key', 'key'.padEnd(300, '!')])(
    'runs code of a debugger that uses up all exact keys, and keeps the one that it waits for (%#)',
    async (key) => {
      const { code, signal, stdout, stderr } = await runProgram('debugged-keys.mjs', [key]);
      expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' });
      // While the thread is blocked, no pin ends. Afterwards there is room for all keys but the one that it holds.
      expect(JSON.parse(stdout)).toEqual({ waiting: 1, used: 7, refusal: 'ERR_LOCK_CAPACITY', room: 7 });
    },
  );
});
