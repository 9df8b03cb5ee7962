import { expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { memoryContract } from '../../contract/contract.js';
import { fillArena } from '../../support/full-arena.mjs';
import { runProgram } from '../../support/programs.js';

// What a lock does by Atomics alone: where the arena is full, or there is none.
fillArena();

/** Fills the arena of a program, too, before the program starts. */
const nodeOptions = ['--import', new URL('../../support/fill-arena.mjs', import.meta.url).href];

it('a lock for which the arena has no room is in memory of its own', () => {
  const { handle } = new StripedLock({ stripes: 1 });
  expect(handle['arena']).toBeUndefined();
  expect(handle['buffer']).toBeInstanceOf(SharedArrayBuffer);
});

it('so is one in a program of the tests below', async () => {
  const { code, stdout } = await runProgram('own-memory.mjs', [], nodeOptions);
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'own memory\n' });
});

memoryContract({ name: 'native', coreOnly: false, nodeOptions });
