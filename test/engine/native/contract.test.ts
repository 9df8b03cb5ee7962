import { expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { lockContract } from '../../contract/contract.js';

it('the native engine is what a lock uses by default', () => {
  expect(new StripedLock().engine).toBe('native');
});

lockContract({ name: 'native', coreOnly: false });
