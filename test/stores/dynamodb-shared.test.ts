import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { dynamodbLeaseStore, type DynamodbLeaseStoreOptions } from 'stripelock/dynamodb';
import { connectDynamodb, missingPackage } from '../support/dynamodb-clients.mjs';
import { StandIn } from '../support/dynamodb/stand-in.mjs';
import { HeldRequests } from '../support/held-requests.js';
import { RECIPES_ADVICE } from '../support/recipe-packages.mjs';
import { reportMissing } from '../support/requirements.js';
import { expectNoGroup, expectPartialReleases } from './readers.js';

const TTL = 60_000;
const SKEW = 1000;
/** Milliseconds of a store whose requests are held. */
const HASTE = 300;
/** The start of a second. */
const START = Date.parse('2026-01-01T00:00:00Z');
const CHANGE = ['GetItem', 'PutItem'];

function describeStore(): void {
  let server: StandIn;
  beforeEach(async () => {
    server = await StandIn.start();
    server.now = () => START;
  });
  afterEach(() => server.stop());

  function open(
    more: Partial<DynamodbLeaseStoreOptions> = {},
    before = (client: ReturnType<typeof connectDynamodb>) => client,
  ): ReturnType<typeof dynamodbLeaseStore> {
    const client = connectDynamodb(server.url);
    const store = dynamodbLeaseStore({ client: before(client), timeout: 30_000, drift: 0, ...more });
    onTestFinished(async () => {
      await store.close();
      client.destroy();
    });
    return store;
  }

  /** The attributes of the item, without its version. */
  function itemOf(key = 'key'): Record<string, unknown> {
    const { version: _, ...rest } = server.items().get(key)!;
    return Object.fromEntries(Object.entries(rest).map(([name, { S, N, BOOL }]) => [name, S ?? N ?? BOOL]));
  }

  it('reads before each write, and only reads if it is refused', async () => {
    const store = open();
    const grant = await store.tryAcquireShared('key', 'r1', TTL);
    await store.tryAcquireShared('key', 'r2', TTL);
    await store.putOffReaders('key', TTL);
    expect(server.requests.splice(0)).toEqual([...CHANGE, ...CHANGE, ...CHANGE]);
    await store.tryAcquireShared('key', 'r3', TTL);
    await store.releaseShared('key', 'r3');
    expect(server.requests.splice(0)).toEqual(['GetItem', 'GetItem']);
    await store.renew('key', grant!.group, TTL);
    for (const reader of ['r1', 'r2']) await store.releaseShared('key', reader);
    expect(server.requests).toEqual([...CHANGE, ...CHANGE, ...CHANGE]);
  });

  it('reports of a release whether other readers still hold the key', async () => {
    await expectPartialReleases(open());
  });

  it('keeps the readers in the place of the info, and leaves a released item after the last one', async () => {
    const store = open();
    const grant = await store.tryAcquireShared('key', 'r1', TTL);
    await store.tryAcquireShared('key', 'r2', TTL);
    // A second, because the time is rounded down, and the margin of a TTL, which is rounded up.
    const ends = START + TTL + SKEW + 1000 + 1;
    const item = { name: 'key', token: String(grant!.token), owner: grant!.group };
    expect(grant!.group).toBe(`stripelock:readers:r1:${grant!.token}`);
    expect(itemOf()).toMatchObject({
      ...item,
      ends: String(ends),
      info: '2026-01-01T00:00:00.000Z 0,r1,r2,',
    });
    expect(itemOf()).not.toHaveProperty('abandoned');
    await store.putOffReaders('key', 5000);
    expect(itemOf()['info']).toBe('2026-01-01T00:00:07.000Z 0,r1,r2,');
    await store.releaseShared('key', 'r1');
    expect(itemOf()['info']).toBe('2026-01-01T00:00:07.000Z 0,r2,');
    await store.releaseShared('key', 'r2');
    const free = { name: 'key', token: String(grant!.token), ends: String(START) };
    const { removeAt: _, ...released } = itemOf();
    expect(released).toEqual({ ...free, info: '2026-01-01T00:00:07.000Z' });
    server.now = () => START + 7000;
    const later = await store.tryAcquireShared('key', 'r3', TTL);
    await store.releaseShared('key', 'r3');
    const { removeAt: __, ...last } = itemOf();
    expect(last).toEqual({ ...free, token: String(later!.token), ends: String(START + 7000) });
  });

  it('is no group if another owner has the key, whatever its info', async () => {
    await expectNoGroup(open(), '2026-01-01T00:00:00.000Z 0,a,');
  });

  it('puts readers off for at least the time on every machine of the service, and not much longer', async () => {
    const store = open();
    // The answer comes from a machine that is behind, at the end of a second.
    server.now = () => START + 999;
    await store.tryAcquireShared('key', 'r1', TTL);
    await store.putOffReaders('key', 5000);
    server.now = () => START + 999 + 5000 + SKEW - 1;
    expect(await store.tryAcquireShared('key', 'r2', TTL)).toBeUndefined();
    server.now = () => START + 999 + 5000 + SKEW + 2000;
    expect(await store.tryAcquireShared('key', 'r2', TTL)).toBeDefined();
  });

  it('wakes the waiters of the same store when the last reader leaves', async () => {
    const store = open();
    await store.tryAcquireShared('key', 'r1', TTL);
    let woken = 0;
    store.onRelease('key', () => woken++);
    expect(await store.tryAcquire('key', 'writer', TTL)).toBeUndefined();
    expect(woken).toBe(0);
    await store.releaseShared('key', 'r1');
    expect(woken).toBe(1);
  });

  it('has a reader in the group once if the answer to it was lost, also if another reader came since', async () => {
    const [store, other] = [open(), open()];
    server.losesNext('PutItem');
    const grant = await store.tryAcquireShared('key', 'r1', TTL);
    expect(grant).toBeDefined();
    server.losesNext('PutItem', () => other.tryAcquireShared('key', 'r3', TTL));
    expect(await store.tryAcquireShared('key', 'r2', TTL)).toEqual(grant);
    expect(itemOf()['info']).toMatch(/,r1,r2,r3,$/);
  });

  it('reports the release of a reader whose answer was lost as done, or rejects if the item has changed since', async () => {
    const [store, other] = [open(), open()];
    for (const reader of ['r1', 'r2', 'r3']) await store.tryAcquireShared('key', reader, TTL);
    server.losesNext('PutItem');
    expect(await store.releaseShared('key', 'r1')).toBe(true);
    server.losesNext('PutItem', () => other.tryAcquireShared('key', 'r4', TTL));
    await expect(store.releaseShared('key', 'r2')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(itemOf()['info']).toMatch(/ 0,r3,r4,$/);
  });

  it('is one group if many readers join and leave at once', async () => {
    // The client repeats requests that fail if the clocks differ by months.
    server.now = Date.now;
    const stores = [open(), open(), open()];
    const readers = Array.from({ length: 12 }, (_, i) => `r${i}`);
    const grants = await Promise.all(
      readers.map((reader, i) => stores[i % 3]!.tryAcquireShared('key', reader, TTL)),
    );
    for (const grant of grants) expect(grant).toEqual(grants[0]);
    const left = await Promise.all(readers.map((reader, i) => stores[i % 3]!.releaseShared('key', reader)));
    expect(left).toEqual(readers.map(() => true));
    expect(await stores[0]!.inspect('key')).toBeUndefined();
  });

  it('does not disturb a later group by a request that arrives late', async () => {
    const requests = new HeldRequests();
    const late = open({ timeout: HASTE }, (client) => requests.before(client, ['putItem']));
    const store = open();
    const held = async (send: () => Promise<unknown>): Promise<void> => {
      requests.holds = true;
      await expect(send()).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
      requests.holds = false;
    };
    await store.tryAcquireShared('key', 'r1', TTL);
    await held(() => late.tryAcquireShared('key', 'r2', TTL));
    await held(() => late.releaseShared('key', 'r1'));
    await held(() => late.putOffReaders('key', TTL));
    await store.releaseShared('key', 'r1');
    const grant = await store.tryAcquireShared('key', 'r3', TTL);
    await requests.letGo();
    expect(await store.tryAcquireShared('key', 'r4', TTL)).toEqual(grant);
    expect(itemOf()['info']).toMatch(/ 0,r3,r4,$/);
  });
}

if (missingPackage === undefined) describe('shared mode in the DynamoDB store', describeStore);
else reportMissing('shared mode in the DynamoDB store', missingPackage, RECIPES_ADVICE);
