import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { byteLengthFor } from '../../../lib/engine/contract/layout.js';
import { Arena } from '../../../unbundled/engine/native/arena.js';
import { runProgram } from '../../support/programs.js';
import { seedFor } from '../../support/seed.js';
import { runThreads } from '../../support/threads.js';

const WITHOUT = fileURLToPath(new URL('../../programs/without-arena.mjs', import.meta.url));

describe('the memory that locks of the native engine share', () => {
  it('gives threads that allocate at the same time parts without an overlap or a gap, up to its end', async () => {
    const seed = seedFor('arena');
    const arena = Arena.create()!;
    const { memory } = arena;
    const threads = 4;
    const tables = 3000;
    const gate = new SharedArrayBuffer(4);
    const spans = await runThreads<[number, number][]>(
      'arena-allocator.mjs',
      Array.from({ length: threads }, (_, i) => ({ memory, gate, threads, seed: seed + i, tables })),
    );
    let end = 64;
    for (const [from, to] of spans.flat().sort(([a], [b]) => a - b)) {
      expect(from).toBe(end);
      end = to;
    }
    const last = Math.floor((arena.buffer.byteLength - end - byteLengthFor(0)) / 64);
    expect(arena.allocate(last + 1)).toBeUndefined();
    expect(arena.allocate(last)).toBe(end);
    expect(arena.allocate(1)).toBeUndefined();
  });

  it('works as Atomics do', () => {
    const { words, compareExchange } = Arena.create()!;
    for (const [index, before, after] of [
      [16, 0, 1],
      [words.length - 1, -1, 2 ** 31 - 1],
      [17, 2 ** 31 - 1, -(2 ** 31)],
    ] as const) {
      words[index] = before;
      expect(compareExchange(4 * index, before ^ 1, 5)).toBe(before);
      expect(words[index]).toBe(before);
      expect(compareExchange(4 * index, before, after)).toBe(before);
      expect(words[index]).toBe(after);
    }
    expect(() => compareExchange(4 * words.length, 0, 0)).toThrow(/out of bounds/);
  });

  it('is recognized: memory of another size, unshared memory, and memory from other code are not used', () => {
    const { Memory } = (globalThis as unknown as { WebAssembly: { Memory: new (limits: object) => object } })
      .WebAssembly;
    const others = [
      undefined,
      null,
      7,
      {},
      new SharedArrayBuffer(2 ** 24),
      new Memory({ initial: 256, maximum: 256 }),
      new Memory({ initial: 255, maximum: 255, shared: true }),
      new Memory({ initial: 256, maximum: 256, shared: true }),
      new Memory({ initial: 256, maximum: 512, shared: true }),
    ];
    for (const memory of others) expect(Arena.over(memory)).toBeUndefined();
    expect(Arena.over(Arena.create()!.memory)).toBeDefined();
  });

  it('allocates nothing after its number of used bytes was overwritten', () => {
    for (const used of [0, 1, 63, 65, 100_001, -64, 2 ** 24, 2 ** 31 - 64, -(2 ** 31)]) {
      const arena = Arena.create()!;
      arena.words[0] = used;
      expect(arena.allocate(1), `used: ${used}`).toBeUndefined();
    }
  });

  it('does not come from environment data that is not ours: the first lock works in every thread', async () => {
    const { code, stdout, stderr } = await runProgram('foreign-environment-data.mjs');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const tried = JSON.parse(stdout) as unknown[];
    expect(tried.length).toBeGreaterThan(5);
    expect(new Set(tried)).toEqual(new Set(['native']));
  });

  it('is the main thread’s in workers, and in their workers', async () => {
    const { code, stdout, stderr } = await runProgram('one-arena.mjs');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const found = JSON.parse(stdout) as [number, number][];
    expect(found.map(([mark]) => mark)).toEqual([77, 77, 77]);
    expect(new Set(found.map(([, offset]) => offset)).size).toBe(3);
  });

  it('may differ between threads: each thread uses the locks of both', async () => {
    const { code, stdout, stderr } = await runProgram('two-arenas.mjs');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { arenas, counted, expected } = JSON.parse(stdout) as Record<string, unknown>;
    expect(arenas).toBe(2);
    expect(counted).toEqual([expected, expected]);
  });

  const alone = { engine: 'native', arena: false, counted: 20_000 };

  it('is not needed if WebAssembly is missing', async () => {
    const { code, stdout } = await runProgram('without-arena.mjs', [], ['--jitless']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual(alone);
  });

  it.runIf(process.platform === 'linux')(
    'is not needed if the process may reserve few addresses',
    async () => {
      // In KiB: enough for Node, not for the ten gibibytes that V8 before Node 24 reserves for one memory.
      const rationed = async (...args: string[]): Promise<unknown> => {
        const command = `ulimit -v 6000000 && exec "$@"`;
        const { stdout } = await promisify(execFile)('sh', ['-c', command, 'sh', process.execPath, ...args]);
        return JSON.parse(stdout);
      };
      const memory = `new WebAssembly.Memory({ initial: 256, maximum: 256, shared: true })`;
      const arena = await rationed('-e', `try { ${memory}; console.log(true) } catch { console.log(false) }`);
      expect(await rationed(WITHOUT)).toEqual({ ...alone, arena });
    },
  );
});
