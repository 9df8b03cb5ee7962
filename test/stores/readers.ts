import { expect } from 'vitest';
import type { InfoLeaseStore, LeaveDetails, SharedLeaseStore } from 'stripelock';

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

/** Checks that the store knows of a release whether other readers still hold the key. */
export async function expectPartialReleases(store: SharedLeaseStore): Promise<void> {
  const readers = ['a', 'b', 'c'];
  for (const reader of readers) await store.tryAcquireShared('key', reader, LONG);
  const freed: (boolean | undefined)[] = [];
  for (const reader of readers) {
    const details: LeaveDetails = {};
    expect(await store.releaseShared('key', reader, details)).toBe(true);
    freed.push(details.freed);
  }
  expect(freed.map((one) => one === false)).toEqual([true, true, false]);
}

/** Checks that the store takes a lease for a group only if it is one. `text`: a group's text with the reader `a`. */
export async function expectNoGroup(store: SharedLeaseStore & InfoLeaseStore, text: string): Promise<void> {
  await store.tryAcquire('key', 'stripelock:readers', LONG, text);
  expect(await store.tryAcquireShared('key', 'b', LONG)).toBeUndefined();
  expect(await store.releaseShared('key', 'a')).toBe(false);
  expect(await store.putOffReaders('key', LONG)).toBe(false);
  expect(await store.inspect('key')).toMatchObject({ info: text });
  for (const info of [undefined, 'some info', text]) {
    await store.tryAcquire('other', 'stripelock:readers:', LONG, info);
    await store.renew('other', 'stripelock:readers:', LONG);
    expect(await store.tryAcquireShared('other', 'b', LONG)).toBeUndefined();
    expect(await store.releaseShared('other', 'b')).toBe(false);
    expect(await store.putOffReaders('other', LONG)).toBe(false);
  }
}

/** Checks that tokens rise although the clock is behind them, also after the table was emptied. */
export async function expectRisingTokens(
  store: SharedLeaseStore,
  table: string,
  query: (sql: string) => Promise<unknown>,
): Promise<void> {
  await store.tryAcquireShared('key', 'a', LONG);
  await store.releaseShared('key', 'a');
  await query(`UPDATE ${table} SET token = 9000000000000000000`);
  expect((await store.tryAcquireShared('key', 'b', LONG))!.token).toBe(9000000000000000001n);
  await query(`TRUNCATE ${table}`);
  expect((await store.tryAcquireShared('key', 'c', LONG))!.token).toBe(9000000000000000002n);
}

/**
 * Checks that the row keeps the time until which readers are put off, from the release of the last reader to an
 * exclusive grant. `free`: the other columns of a free row. `time`: the form of the time.
 */
export async function expectTimeInFreeRow(
  store: SharedLeaseStore,
  row: () => Promise<unknown>,
  free: object,
  time: RegExp,
): Promise<void> {
  await store.tryAcquireShared('key', 'a', LONG);
  await store.putOffReaders('key', LONG);
  await store.releaseShared('key', 'a');
  expect(await row()).toEqual({ ...free, info: expect.stringMatching(time) as string });
  expect(await store.tryAcquireShared('key', 'b', LONG)).toBeUndefined();
  await store.tryAcquire('key', 'writer', LONG);
  await store.release('key', 'writer');
  expect(await row()).toEqual({ ...free, info: null });
}
