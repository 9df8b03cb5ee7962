import { expect, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { lockContract } from '../../contract/contract.js';

it('a lock uses the native engine by default', () => {
  expect(new StripedLock().engine).toBe('native');
});

lockContract({ name: 'native' });
