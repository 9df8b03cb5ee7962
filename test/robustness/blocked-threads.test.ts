import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { runProgram } from '../support/programs.js';
import { keysApart } from '../support/keys.js';
import { expectPrompt } from '../support/prompt.js';
import { Victim } from '../support/victim.js';
import { until } from '../support/waiting.js';
import { clock } from '../workers/clock.mjs';

/** Milliseconds. */
const TERMINATE = 100;
const EXIT = 300;
/** Of one processor, for eight blocked threads together; measured 1.4 %, one that does not sleep takes 100 %. */
const LITTLE = 0.05;

describe('a thread blocked in acquireSync', () => {
  // The engine in JavaScript sleeps in Atomics.wait, which node itself interrupts.
  for (const engine of ['native', 'javascript'] as const) {
    it(`of the ${engine} engine ends promptly when it is terminated`, async () => {
      const lock = new StripedLock({ engine });
      const [key, ...others] = keysApart(lock, 3) as [string, ...string[]];
      const ours = lock.acquireSync(key);
      const times: number[] = [];
      for (const parked of [
        { keys: key },
        { keys: key, mode: 'shared' as const },
        { keys: [key, ...others] },
        { keys: [...others, key], mode: 'shared' as const },
        { keys: key },
      ]) {
        const { waiting } = lock.stats();
        const victim = await Victim.start(lock, { parked });
        await until(() => lock.stats().waiting > waiting, 'it is blocked');
        const messages: unknown[] = [];
        victim.worker.on('message', (message) => messages.push(message));
        const start = performance.now();
        await victim.worker.terminate();
        times.push(performance.now() - start);
        expect(messages).toEqual([]);
        // JavaScript is not told when a thread dies, and goes on counting it.
        expect(lock.stats()).toMatchObject({ waiting: engine === 'native' ? 0 : waiting + 1, held: 1 });
      }
      expectPrompt(`terminate() of a blocked thread, ${engine}`, times, TERMINATE);
      ours.release();
    });
  }

  it('ends promptly with all others that are blocked', async () => {
    const lock = new StripedLock({ engine: 'native' });
    const ours = lock.acquireSync('key');
    const victims = await Promise.all(
      Array.from({ length: 8 }, () => Victim.start(lock, { parked: { keys: 'key' } })),
    );
    await until(() => lock.stats().waiting === 8, 'all are blocked');
    const start = performance.now();
    const times = await Promise.all(
      victims.map(async ({ worker }) => {
        await worker.terminate();
        return performance.now() - start;
      }),
    );
    expectPrompt('terminate() of eight blocked threads', times, TERMINATE);
    expect(lock.stats()).toMatchObject({ waiting: 0, held: 1, abandoned: 0 });
    ours.release();
  });

  // Measured from inside the process, which prints the time before it begins to end, to its exit.
  for (const [scenario, expected] of [
    ['exit', 5],
    ['throw', 1],
  ] as const) {
    it(`does not hold up the end of the process (${scenario})`, async () => {
      const program = fileURLToPath(new URL('../programs/parked-exit.mjs', import.meta.url));
      const times: number[] = [];
      for (let round = 0; round < 3; round++) {
        const child = spawn(process.execPath, [program, scenario], {
          stdio: ['ignore', 'pipe', 'ignore'],
          timeout: 30_000,
          killSignal: 'SIGKILL',
        });
        let printed = '';
        child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
        let ended = NaN;
        child.once('exit', () => (ended = clock()));
        const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
        expect({ code, signal }).toEqual({ code: expected, signal: null });
        times.push(ended - Number(printed));
      }
      expectPrompt(`end of a process with eight blocked threads (${scenario})`, times, EXIT);
    });
  }

  it('takes no processor time to speak of', async () => {
    const { code, stdout, stderr } = await runProgram('parked-exit.mjs', ['cpu']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    console.log(`eight blocked threads, a thousand pending acquisitions: ${stdout.trim()} of a processor`);
    expect(Number(stdout)).toBeLessThan(LITTLE);
  });
});
