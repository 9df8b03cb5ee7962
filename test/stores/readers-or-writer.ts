import { expect } from 'vitest';
import type { SharedLeaseStore } from 'stripelock';

const LONG = 600_000;

/**
 * Asks for a free key from all stores at once, every other time in shared mode. Checks that all readers have the key
 * together, or that one writer has it. Then frees the key.
 */
export async function expectReadersOrWriter(
  stores: readonly SharedLeaseStore[],
  round: number,
): Promise<void> {
  const reads = stores.map((_, i) => (i + round) % 2 === 0);
  const ids = stores.map((_, i) => `${round}:${i}`);
  const asked = stores.map(async (store, i) =>
    reads[i]!
      ? (await store.tryAcquireShared('shared', ids[i]!, LONG))?.token
      : store.tryAcquire('shared', ids[i]!, LONG),
  );
  const tokens = await Promise.all(asked);
  const { token } = (await stores[0]!.inspect('shared'))!;
  const areReaders = tokens.some((granted, i) => granted !== undefined && reads[i]!);
  if (areReaders) expect(tokens).toEqual(reads.map((isReader) => (isReader ? token : undefined)));
  else expect(tokens.filter((granted) => granted !== undefined)).toEqual([token]);
  const freed = stores.map((store, i) => {
    return reads[i]! ? store.releaseShared('shared', ids[i]!) : store.release('shared', ids[i]!);
  });
  expect(await Promise.all(freed)).toEqual(tokens.map((granted) => granted !== undefined));
  expect(await stores[0]!.inspect('shared')).toBeUndefined();
}
