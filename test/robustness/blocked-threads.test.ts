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
const MANY = 60;
/**
 * Milliseconds that the end of a process with so many may take longer than half as much again as with threads in
 * `Atomics.wait`: measured 0 to 40. With slices of 20 ms it took 400 to 700 longer.
 */
const MORE = 60;
/** What a blocked thread takes longer than one in `Atomics.wait` to end; without a wake it is half a slice, 40 ms. */
const LATE = 15;
/** Of one processor, for MANY: measured 0.5 %, and up to 1.2 % where each wake finds its caches cold; 3.5 to 5 % with slices of 20 ms. */
const NEXT_TO_NOTHING = 0.02;
/** Of one processor, for eight blocked threads together; measured 1.4 %, one that does not sleep takes 100 %. */
const LITTLE = 0.05;

/** Milliseconds from just before a process begins to end, which it prints, to its exit. */
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

/** What a scenario of parked-exit.mjs prints. */
async function printedBy(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runProgram('parked-exit.mjs', args, [], 60_000);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout.trim();
}

/** Elsewhere no event loop can be watched. */
const watched = process.platform === 'linux' || process.platform === 'darwin';

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
      const times: number[] = [];
      for (let round = 0; round < 3; round++) times.push(await timeToEnd([scenario], expected));
      expectPrompt(`end of a process with eight blocked threads (${scenario})`, times, EXIT);
    });
  }

  // Node ends its threads one after the other, and waits for each.
  it('does not hold up process.exit() where there are many', { timeout: 120_000 }, async () => {
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

  it('takes no processor time to speak of', async () => {
    const share = await printedBy('cpu');
    console.log(`eight blocked threads, a thousand pending acquisitions: ${share} of a processor`);
    expect(Number(share)).toBeLessThan(LITTLE);
  });

  describe.runIf(watched)('whose event loop can be watched', () => {
    it.each([
      ['takes next to no processor time once it has slept for a second', 'longCpu'],
      ['does not spin where its event loop has unread messages', 'busyLoops'],
    ])('%s', { timeout: 60_000 }, async (_, scenario) => {
      const share = await printedBy(scenario, String(MANY));
      console.log(`${MANY} blocked threads, ${scenario}: ${share} of a processor`);
      expect(Number(share)).toBeLessThan(NEXT_TO_NOTHING);
    });

    it('is woken when it is terminated, however long it has slept', { timeout: 60_000 }, async () => {
      const ours = JSON.parse(await printedBy('terminate', '15')) as number[];
      const theirs = JSON.parse(await printedBy('terminate', '15', 'atomics')) as number[];
      console.log(
        `terminate(): ${median(ours).toFixed(1)} ms, in Atomics.wait ${median(theirs).toFixed(1)} ms`,
      );
      expect(median(ours)).toBeLessThan(2 * median(theirs) + LATE);
    });
  });
});
