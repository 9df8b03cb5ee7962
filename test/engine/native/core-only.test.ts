import { expect, it } from 'vitest';

// The native engine reads this when it is loaded: here, and in the threads and processes that tests start.
process.env['STRIPELOCK_CORE_ONLY'] = '1';
const { coreOnlyContract } = await import('../../contract/contract.js');
const { createTable } = await import('../../../unbundled/engine/select.js');

it('every acquisition goes through the engine: the fast path never sees a free word', () => {
  const table = createTable('native', { stripes: 8, exact: false, limit: 1 });
  expect(table.compareExchange).toBeUndefined();
  expect(table.words.buffer).toBeInstanceOf(ArrayBuffer);
  expect(table.words.some((word) => word === 0)).toBe(false);
});

coreOnlyContract({ name: 'native', coreOnly: true });
