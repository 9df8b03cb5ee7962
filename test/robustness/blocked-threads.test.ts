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
const MANY = 60;
/**
 * Milliseconds that the end of a process with MANY threads may take beyond 1.5 times what it takes with threads in
 * `Atomics.wait`.
 */
const MORE = 60;
/** How often a second a thread may go to sleep. With slices of 20 ms it does 50 times. */
const SLEEPS = 60;
/** Share of one processor. Measured: 1.4 % for eight threads; one that does not sleep takes 100 %. */
const LITTLE = 0.05;

/** Milliseconds from just before a process ends, a time which it prints, to its exit. */
async function timeToEnd(args: readonly string[], expected: number): Promise<number> {
  const program = fileURLToPath(new URL('../programs/parked-exit.mjs', import.meta.url));
  const child = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  let ended = NaN;
  child.once('exit', () => (ended = clock()));
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  expect({ code, signal }).toEqual({ code: expected, signal: null });
  return ended - Number(printed);
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]!;
}

interface Effort {
  /** The share of one processor. */
  readonly processor: number;
  /** How often a second one of the threads went to sleep. */
  readonly sleeps: number;
}

async function effortOf(...args: string[]): Promise<Effort> {
  return JSON.parse(await printedBy(...args)) as Effort;
}

/** The output of a scenario of parked-exit.mjs. */
async function printedBy(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runProgram('parked-exit.mjs', args, [], 60_000);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout.trim();
}

describe('a thread blocked in acquireSync', () => {
  // The JavaScript engine sleeps in Atomics.wait, which Node itself interrupts.
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
        // The JavaScript engine does not notice that a thread died, and still counts it.
        expect(lock.stats()).toMatchObject({ waiting: engine === 'native' ? 0 : waiting + 1, held: 1 });
      }
      expectPrompt(`terminate() of a blocked thread, ${engine}`, times, TERMINATE);
      ours.release();
    });
  }

  // Measured from the time that the process prints before it ends, to its exit.
  // Node ends its threads one by one, and waits for each.
  it('does not delay process.exit() together with many others', { timeout: 120_000 }, async () => {
    const ours: number[] = [];
    const theirs: number[] = [];
    for (let round = 0; round < 3; round++) {
      ours.push(await timeToEnd(['exit', String(MANY)], 5));
      theirs.push(await timeToEnd(['exit', String(MANY), 'atomics'], 5));
    }
    const allowed = 1.5 * median(theirs) + MORE;
    console.log(
      `process.exit() with ${MANY} blocked threads: ${median(ours).toFixed(0)} ms, ` +
        `in Atomics.wait ${median(theirs).toFixed(0)} ms, allowed ${allowed.toFixed(0)} ms`,
    );
    expect(median(ours)).toBeLessThan(allowed);
  });

  it('takes hardly any processor time', async () => {
    const { processor } = await effortOf('cpu');
    console.log(`eight blocked threads, a thousand pending acquisitions: ${processor} of a processor`);
    expect(processor).toBeLessThan(LITTLE);
  });

  it('takes little processor time together with many others', { timeout: 60_000 }, async () => {
    const { processor, sleeps } = await effortOf('longCpu', String(MANY));
    console.log(`${MANY} blocked threads: ${processor} of a processor, ${sleeps} sleeps a second`);
    // Its processor time depends on what else the machine does, too.
    expect(sleeps).toBeGreaterThan(0);
    expect(sleeps).toBeLessThan(MANY * SLEEPS);
  });
});
