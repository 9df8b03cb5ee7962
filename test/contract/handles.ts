import { describe, expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { ENGINE_INDEX, MAGIC_INDEX, STRIPES_INDEX, VERSION_INDEX } from '../../lib/engine/contract/layout.js';
import { Agent } from '../support/agent.js';
import { runProgram } from '../support/programs.js';
import type { Suite } from '../support/engine.js';
import { handleOfCopy, wordsOf } from '../support/handle-memory.mjs';
import { seedFor } from '../support/seed.js';
import { thrownBy } from '../support/waiting.js';

export const handlesSuite: Suite = (makeLock, engine) => {
  describe('handles', () => {
    it('open the same lock again in the same thread', async () => {
      const lock = makeLock({ stripes: 33, name: 'again', timeout: 1234 });
      const again = StripedLock.from(lock.handle);
      expect(again).toBeInstanceOf(StripedLock);
      expect(again).toMatchObject({ stripes: 33, name: 'again', timeout: 1234, engine: engine.name });
      const guard = lock.acquireSync('key');
      expect(again.tryAcquire('key')).toBeUndefined();
      expect(again.stats()).toEqual(lock.stats());
      const waiting = again.acquire('key');
      expect(lock.stats().waiting).toBe(1);
      guard.release();
      const theirs = await waiting;
      expect(lock.tryAcquire('key')).toBeUndefined();
      theirs.release();
    });

    it('pass through structured clone, and through workers, with all settings', async () => {
      const lock = makeLock({ stripes: 7, name: 'cloned', timeout: Infinity });
      const clone = StripedLock.from(structuredClone(structuredClone(lock.handle)));
      expect(clone).toMatchObject({ stripes: 7, name: 'cloned', timeout: Infinity, engine: engine.name });
      expect(StripedLock.from(clone.handle).handle).toEqual(lock.handle);
      const other = await Agent.start(clone);
      const theirs = await other.acquireSync('key');
      expect(lock.tryAcquire('key')).toBeUndefined();
      await theirs.release();
      expect(lock.tryAcquire('key')).toBeDefined();
    });

    it('open a copy of the memory as a separate lock, also if the memory can grow', () => {
      const lock = makeLock({ stripes: 3 });
      const { byteLength } = wordsOf(lock.handle);
      for (const options of [undefined, { maxByteLength: byteLength + 4096 }]) {
        const memory = new (SharedArrayBuffer as new (length: number, options?: object) => SharedArrayBuffer)(
          byteLength,
          options,
        );
        const other = StripedLock.from(handleOfCopy(lock.handle, memory));
        const guard = other.acquireSync('key');
        lock.tryAcquire('key')!.release();
        expect(other.tryAcquire('key')).toBeUndefined();
        guard.release();
      }
    });

    it('keep working for a lock whose memory grows while it is in use', async () => {
      const lock = makeLock({ stripes: 3 });
      const { byteLength } = wordsOf(lock.handle);
      const memory = new (SharedArrayBuffer as new (length: number, options?: object) => SharedArrayBuffer)(
        byteLength,
        { maxByteLength: 2 ** 20 },
      ) as SharedArrayBuffer & { grow(length: number): void };
      const handle = handleOfCopy(lock.handle, memory);
      const other = StripedLock.from(handle);
      const guard = other.acquireSync(['a', 'b', 'c', 'd']);
      const waiting = other.acquire(['a', 'b', 'c', 'd']);
      memory.grow(2 ** 20);
      guard.release();
      (await waiting).release();
      other.acquireSync('key', { mode: 'shared' }).release();
      expect(other.stats()).toMatchObject({ held: 0, waiting: 0 });
      expect(other.inspect()).toEqual([]);
      // Its size no longer matches its stripes.
      const error = thrownBy(() => StripedLock.from(handle));
      expect(error).toMatchObject({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' });
    });

    it('cannot be changed', () => {
      const lock = makeLock();
      const { handle } = lock as { handle: Record<string, unknown> };
      expect(Object.isFrozen(handle)).toBe(true);
      expect(() => (handle['stripes'] = 5)).toThrow(TypeError);
    });

    it('of the wrong type are refused', () => {
      const lock = makeLock({ stripes: 4 });
      const none: unknown[] = [undefined, null, 5, 'handle', true, {}, [], () => 1, Symbol('handle'), 5n];
      none.push(
        lock,
        lock.acquireSync('key'),
        new SharedArrayBuffer(1024),
        new Map(),
        JSON.stringify(lock.handle),
      );
      none.push(JSON.parse(JSON.stringify(lock.handle)));
      for (const handle of none) {
        const error = thrownBy(() => StripedLock.from(handle as typeof lock.handle));
        expect(error).toMatchObject({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' });
      }
    });

    it('with one field replaced are refused, or open a lock that works', () => {
      const lock = makeLock({ stripes: 4 });
      const bigger = makeLock({ stripes: 5 });
      const { byteLength } = wordsOf(lock.handle);
      const buffer = new SharedArrayBuffer(byteLength);
      const longer = new SharedArrayBuffer(byteLength + 64);
      const shorter = new SharedArrayBuffer(byteLength - 64);
      for (const memory of [buffer, longer, shorter]) handleOfCopy(lock.handle, memory);
      const substitutes: unknown[] = [
        undefined,
        null,
        0,
        -1,
        1.5,
        NaN,
        2 ** 40,
        5,
        '',
        'text',
        true,
        {},
        [],
        Symbol('x'),
        9n,
      ];
      substitutes.push(new ArrayBuffer(byteLength), new SharedArrayBuffer(0), new SharedArrayBuffer(7));
      substitutes.push(new SharedArrayBuffer(byteLength), new Int32Array(buffer), buffer, longer, shorter);
      substitutes.push(...wasmMemories(), ...Object.values(bigger.handle));
      const forgeries = [lock.handle, handleOfCopy(lock.handle)].flatMap((handle) =>
        Object.keys(handle).flatMap((field) =>
          substitutes.map((substitute) => ({ ...handle, [field]: substitute })),
        ),
      );
      for (const forged of forgeries) {
        let opened: StripedLock;
        try {
          opened = StripedLock.from(forged);
        } catch (error) {
          expect(error).toMatchObject({ code: expect.stringMatching(/^ERR_/) as string });
          continue;
        }
        opened.tryAcquire('key')!.release();
      }
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    });

    it('with fields that do not belong together are refused', () => {
      const lock = makeLock({ stripes: 4 });
      const copy = handleOfCopy(lock.handle);
      const refused = (fields: object, message: RegExp): void => {
        const error = thrownBy(() => StripedLock.from({ ...lock.handle, ...fields }));
        expect(error).toMatchObject({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' });
        expect((error as Error).message).toMatch(message);
      };
      const arena = wasmMemories()[2]! as { buffer: SharedArrayBuffer };
      const words = wordsOf(lock.handle);
      new Int32Array(arena.buffer, 64, words.length).set(words);
      refused({ arena, buffer: copy['buffer'], offset: 0 }, /two memories/);
      refused({ arena, buffer: copy['buffer'], offset: 64 }, /two memories/);
      refused({ arena, buffer: arena.buffer, offset: 64 }, /two memories/);
      refused({ arena, buffer: null, offset: 64 }, /two memories/);
      refused({ arena: undefined, buffer: copy['buffer'], offset: 64 }, /size/);
      refused({ arena: undefined, buffer: arena.buffer, offset: 64 }, /size/);
      refused({ arena: undefined, buffer: undefined }, /buffer/);
      refused({ arena: null }, /arena/);
      refused({ arena, buffer: undefined, offset: 0 }, /memory/);
      refused({ arena, buffer: undefined, offset: 4 }, /memory/);
      refused({ stripes: 5 }, /stripe|size/);
      lock.acquireSync('key').release();
      expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
    });

    it('of a lock on another version, or another engine, are refused with an error that says so', () => {
      const forged = (index: number, value: number): unknown => {
        const copy = structuredClone(makeLock({ stripes: 4 }).handle);
        wordsOf(copy)[index] = value;
        return thrownBy(() => StripedLock.from(copy));
      };
      const messages = [
        [MAGIC_INDEX, 0, /memory/],
        [VERSION_INDEX, 77, /version/],
        [ENGINE_INDEX, 77, /engine/],
        [STRIPES_INDEX, 5, /stripe/],
      ] as const;
      for (const [index, value, message] of messages) {
        const error = forged(index, value) as Error;
        expect(error).toMatchObject({ name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' });
        expect(error.message).toMatch(message);
      }
    });

    it('with random bytes in their memory give errors and never end the process', async () => {
      const seed = seedFor('forged handles');
      const { code, signal, stdout, stderr } = await runProgram('forged-handles.mjs', [
        engine.name,
        String(seed),
      ]);
      expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' });
      const { opened, refused, used } = JSON.parse(stdout) as Record<string, number>;
      // Otherwise the program tested only one side.
      expect(opened).toBeGreaterThan(0);
      expect(refused).toBeGreaterThan(0);
      expect(used).toBeGreaterThan(0);
    });
  });
};

/** WebAssembly memories of several sizes, shared and not, and an object that only looks like one. */
function wasmMemories(): object[] {
  const { Memory } = (globalThis as unknown as { WebAssembly: { Memory: new (limits: object) => object } })
    .WebAssembly;
  return [
    new Memory({ initial: 1 }),
    new Memory({ initial: 1, maximum: 1, shared: true }),
    new Memory({ initial: 256, maximum: 256, shared: true }),
    { buffer: new SharedArrayBuffer(65_536) },
  ];
}
