import { expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { lockContract } from '../../contract/contract.js';
import { fillArena } from '../../support/full-arena.mjs';

// All of the contract by Atomics alone: where the arena is full, or there is none.
fillArena();

it('a lock for which the arena has no room is in memory of its own', () => {
  const { handle } = new StripedLock({ stripes: 1 });
  expect(handle['arena']).toBeUndefined();
  expect(handle['buffer']).toBeInstanceOf(SharedArrayBuffer);
});

lockContract({ name: 'native', coreOnly: false });
