import { expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { coreOnlyContract } from '../../contract/contract.js';
import * as coreOnly from '../../support/core-only.mjs';

/** Does the same in a program before it starts. */
const nodeOptions = ['--import', new URL('../../support/core-only.mjs', import.meta.url).href];

it('every acquisition and release goes through the engine', () => {
  const lock = new StripedLock({ engine: 'native' });
  const before = coreOnly.refused;
  lock.acquireSync('key').release();
  expect(coreOnly.refused).toBe(before + 2);
});

coreOnlyContract({ name: 'native', nodeOptions });
