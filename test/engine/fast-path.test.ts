import { expect, it } from 'vitest';
import { bufferOfWasmMemory } from '../../unbundled/common/wasm-memory.js';
import type { LockTable } from '../../unbundled/engine/contract/engine.js';
import { byteLengthFor, HEADER_INTS, wordIndex } from '../../unbundled/engine/contract/layout.js';
import type { TableMemory } from '../../unbundled/engine/contract/table-memory.js';
import { EXCLUSIVE_MODE } from '../../unbundled/engine/contract/mode.js';
import { FastPath } from '../../unbundled/engine/fast-path.js';
import { StripedLock } from '../../unbundled/index.js';

// native/test/coherence/coherence_test.cc repeats the accesses to shared memory that these tests allow.

const SLOT = 3;
const STRIPE = 5;
const ADDRESS = 64 + 4 * (wordIndex(STRIPE) - HEADER_INTS);

/** A path whose compare-and-swap returns `word`, and the list of all its accesses and calls. */
function recordingPath(word: number): { path: FastPath; accesses: unknown[] } {
  const accesses: unknown[] = [];
  const words = new Proxy(
    {},
    {
      get: (_, property) => {
        throw new Error(`reads words[${String(property)}]`);
      },
    },
  );
  const table = {
    words,
    firstAddress: 64,
    slot: SLOT,
    limit: 1,
    shares: undefined,
    compareExchange(address: number, expected: number, replacement: number) {
      accesses.push([address, expected, replacement]);
      return word;
    },
    release: (stripe: number, mode: unknown) => accesses.push(['release', stripe, mode]),
  };
  return { path: new FastPath(table as unknown as LockTable), accesses };
}

it('takes and releases a free stripe with one compare-and-swap each, and no other access', () => {
  const free = recordingPath(0);
  expect(FastPath.take(free.path, STRIPE)).toBe(true);
  expect(free.accesses).toEqual([[ADDRESS, 0, SLOT]]);
  const held = recordingPath(SLOT);
  FastPath.release(held.path, STRIPE);
  expect(held.accesses).toEqual([[ADDRESS, SLOT, 0]]);
});

it('leaves a held stripe to the engine after one compare-and-swap', () => {
  const { path, accesses } = recordingPath(7);
  expect(FastPath.take(path, STRIPE)).toBe(false);
  FastPath.release(path, STRIPE);
  expect(accesses).toEqual([
    [ADDRESS, 0, SLOT],
    [ADDRESS, SLOT, 0],
    ['release', STRIPE, EXCLUSIVE_MODE],
  ]);
});

it('changes no shared memory of a lock but the word of the stripe, and that only while the key is held', () => {
  const stripes = 8;
  const lock = new StripedLock({ stripes });
  const { arena, buffer, offset } = lock.handle as unknown as TableMemory;
  const words = new Int32Array(bufferOfWasmMemory(arena) ?? buffer!, offset, byteLengthFor(stripes) / 4);
  const before = words.slice();
  const guard = lock.acquireSync('key');
  const during = words.slice();
  guard.release();
  expect(during.filter((word, i) => word !== before[i])).toHaveLength(1);
  expect(words.every((word, i) => word === before[i])).toBe(true);
});
