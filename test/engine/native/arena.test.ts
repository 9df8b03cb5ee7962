import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { Arena } from '../../../dist/engine/native/arena.js';
import { runProgram } from '../../support/programs.js';
import { seedFor } from '../../support/seed.js';
import { runTogether } from '../../support/threads.js';

const WITHOUT = fileURLToPath(new URL('../../programs/without-arena.mjs', import.meta.url));

describe('the memory that locks of the native engine share', () => {
  it('is allocated by several threads at once without an overlap or a gap, and to its end', async () => {
    const seed = seedFor('arena');
    const arena = Arena.create()!;
    const { memory } = arena;
    const data = { memory, seed, tables: 3000 };
    const spans = await runTogether<[number, number][]>('arena-allocator.mjs', 4, data);
    let end = 64;
    for (const [from, to] of spans.flat().sort(([a], [b]) => a - b)) {
      expect(from).toBe(end);
      end = to;
    }
    const last = Math.floor((arena.buffer.byteLength - end - 256) / 64);
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

  it('is not confused with memory of another size, that is not shared, or that somebody else made', () => {
    const { Memory } = (globalThis as unknown as { WebAssembly: { Memory: new (limits: object) => object } })
      .WebAssembly;
    const none = [
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
    for (const memory of none) expect(Arena.over(memory)).toBeUndefined();
    expect(Arena.over(Arena.create()!.memory)).toBeDefined();
  });

  it('allocates nothing after the number of its used bytes was overwritten', () => {
    for (const used of [0, 1, 63, 65, 100_001, -64, 2 ** 24, 2 ** 31 - 64, -(2 ** 31)]) {
      const arena = Arena.create()!;
      arena.words[0] = used;
      expect(arena.allocate(1), `used: ${used}`).toBeUndefined();
    }
  });

  it('is not taken from environment data that is not ours: the first lock works, in every thread', async () => {
    const { code, stdout, stderr } = await runProgram('foreign-environment-data.mjs');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const tried = JSON.parse(stdout) as unknown[];
    expect(tried.length).toBeGreaterThan(5);
    expect(new Set(tried)).toEqual(new Set(['native']));
  });

  it('is shared with workers, and with their workers', async () => {
    const { code, stdout, stderr } = await runProgram('one-arena.mjs');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const found = JSON.parse(stdout) as [number, number][];
    expect(found.map(([mark]) => mark)).toEqual([77, 77, 77]);
    expect(new Set(found.map(([, offset]) => offset)).size).toBe(3);
  });

  it('may differ between threads: both use the locks of both', async () => {
    const { code, stdout, stderr } = await runProgram('two-arenas.mjs');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const { arenas, counted, expected } = JSON.parse(stdout) as Record<string, unknown>;
    expect(arenas).toBe(2);
    expect(counted).toEqual([expected, expected]);
  });

  const alone = { engine: 'native', arena: false, counted: 20_000 };

  it('is not needed without WebAssembly', async () => {
    const { code, stdout } = await runProgram('without-arena.mjs', [], ['--jitless']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual(alone);
  });

  it.runIf(process.platform === 'linux')('is not needed where address space is limited', async () => {
    // In KiB: enough for Node, but not for the 10 GiB that V8 before Node 24 reserves for one memory.
    const rationed = async (...args: string[]): Promise<unknown> => {
      const command = `ulimit -v 6000000 && exec "$@"`;
      const { stdout } = await promisify(execFile)('sh', ['-c', command, 'sh', process.execPath, ...args]);
      return JSON.parse(stdout);
    };
    const memory = `new WebAssembly.Memory({ initial: 256, maximum: 256, shared: true })`;
    const arena = await rationed('-e', `try { ${memory}; console.log(true) } catch { console.log(false) }`);
    expect(await rationed(WITHOUT)).toEqual({ ...alone, arena });
  });
});
