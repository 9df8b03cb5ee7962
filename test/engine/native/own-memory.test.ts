import { expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { memoryContract } from '../../contract/contract.js';
import { fillArena } from '../../support/full-arena.mjs';
import { runProgram } from '../../support/programs.js';

// Here the arena is full, so that locks are in separate memory and use Atomics, as they do where there is no arena.
fillArena();

/** Fills the arena of a program before it starts. */
const nodeOptions = ['--import', new URL('../../support/fill-arena.mjs', import.meta.url).href];

it('a lock has separate memory if the arena is full', () => {
  const { handle } = new StripedLock({ stripes: 1 });
  expect(handle['arena']).toBeUndefined();
  expect(handle['buffer']).toBeInstanceOf(SharedArrayBuffer);
});

it('so is a lock in a program of the tests below', async () => {
  const { code, stdout } = await runProgram('own-memory.mjs', [], nodeOptions);
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'own memory\n' });
});

memoryContract({ name: 'native', nodeOptions });
