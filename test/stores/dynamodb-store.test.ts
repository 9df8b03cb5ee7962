import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { dynamodbLeaseStore, type DynamodbLeaseStoreOptions } from 'stripelock/dynamodb';
import {
  connectDynamodb,
  connectWithoutMethods,
  missingPackage,
  SECRET_KEY,
} from '../support/dynamodb-clients.mjs';
import { StandIn } from '../support/dynamodb/stand-in.mjs';
import { RECIPES_ADVICE } from '../support/recipe-packages.mjs';
import { reportMissing } from '../support/requirements.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';

const TTL = 60_000;
/** Milliseconds: the default of the option. */
const SKEW = 1000;
const STORE_ERROR = { code: 'ERR_LEASE_STORE', name: 'LeaseStoreError' };

function describeStore(): void {
  let server: StandIn;
  beforeEach(async () => {
    server = await StandIn.start();
  });
  afterEach(() => server.stop());

  function open(more: Partial<DynamodbLeaseStoreOptions> = {}): ReturnType<typeof dynamodbLeaseStore> {
    const client = connectDynamodb(server.url);
    const store = dynamodbLeaseStore({ client, timeout: 30_000, ...more });
    onTestFinished(async () => {
      await store.close();
      client.destroy();
    });
    return store;
  }

  /** Sets the service's clock, which then stands. */
  const setClock = (time: number): void => void (server.now = () => time);
  /** The start of a second. */
  const START = Date.parse('2026-01-01T00:00:00Z');

  it('takes an expired lease only when its length has passed on every machine of the service', async () => {
    const store = open({ drift: 0 });
    const length = 60_001;
    // The answer to the holder comes from a machine that is behind, at the end of a second.
    setClock(START + 999);
    await store.tryAcquire('key', 'a', length);
    // On a machine that is ahead, a second begins when the length has passed.
    const ends = START + 999 + length + SKEW;
    setClock(ends);
    expect(await store.tryAcquire('key', 'b', TTL)).toBeUndefined();
    expect(await store.renew('key', 'b', TTL)).toBe(false);
    setClock(ends + 2000);
    expect(await store.tryAcquire('key', 'b', TTL)).toBeTypeOf('bigint');
  });

  it('shows no more remaining time than the holder has', async () => {
    const store = open({ drift: 0 });
    setClock(START);
    await store.tryAcquire('key', 'a', TTL);
    expect((await store.inspect('key'))!.remaining).toBe(TTL);
    setClock(START + 10_000);
    expect((await store.inspect('key'))!.remaining).toBeLessThanOrEqual(TTL - 10_000);
    expect((await store.list())[0]!.remaining).toBeLessThanOrEqual(TTL - 10_000);
  });

  it('grants rising tokens while clocks of the service are set back', async () => {
    const store = open();
    let last = 0n;
    for (const offset of [0, -100_000, 0, -100_000]) {
      setClock(START + offset);
      const token = await store.tryAcquire('key', 'a', TTL);
      expect(token! > last).toBe(true);
      last = token!;
      await store.release('key', 'a');
    }
  });

  it('grants a higher token than before to the same client after all data was lost', async () => {
    const store = open();
    setClock(START);
    const token = await store.tryAcquire('key', 'a', TTL);
    server.items().clear();
    expect((await store.tryAcquire('key', 'b', TTL))! > token!).toBe(true);
  });

  it('has one lease if the client sends an acquisition again because its answer was lost', async () => {
    const store = open();
    server.losesNext('PutItem');
    const token = await store.tryAcquire('key', 'a', TTL);
    expect(await store.inspect('key')).toMatchObject({ owner: 'a', token });
    server.losesNext('TransactWriteItems');
    const tokens = (await store.tryAcquireAll(['key', 'other'], 'a', TTL)) as bigint[];
    expect(await store.releaseAll(['key', 'other'], 'a', tokens)).toEqual([true, true]);
    const writes = ['PutItem', 'PutItem', 'TransactWriteItems', 'TransactWriteItems', 'PutItem', 'PutItem'];
    expect(server.requests.filter((name) => name !== 'GetItem')).toEqual(writes);
  });

  it('reads before each write, and only reads if the key is held', async () => {
    const store = open();
    await store.tryAcquire('key', 'a', TTL);
    expect(await store.tryAcquire('key', 'b', TTL)).toBeUndefined();
    await store.renew('key', 'a', TTL);
    await store.release('key', 'a');
    const change = ['GetItem', 'PutItem'];
    expect(server.requests).toEqual([...change, 'GetItem', ...change, ...change]);
  });

  it('reports a release whose answer was lost as done', async () => {
    const store = open();
    await store.tryAcquire('key', 'a', TTL);
    server.losesNext('PutItem');
    expect(await store.release('key', 'a')).toBe(true);
    expect(await store.inspect('key')).toBeUndefined();
  });

  it('rejects a release whose answer was lost if the next owner has changed the item since', async () => {
    const store = open();
    const other = open();
    await store.tryAcquire('key', 'a', TTL);
    server.losesNext('PutItem', () => other.tryAcquire('key', 'b', TTL));
    expect(await rejectionOf(store.release('key', 'a'))).toMatchObject(STORE_ERROR);
    expect(await other.inspect('key')).toMatchObject({ owner: 'b' });
  });

  it('rejects an operation if the service does not answer in time', async () => {
    const store = open({ timeout: 50 });
    server.losesNext('GetItem', () => new Promise((resolve) => setTimeout(resolve, 500)));
    expect(await rejectionOf(store.tryAcquire('key', 'a', TTL))).toMatchObject(STORE_ERROR);
  });

  it('rejects if answers have no Date header', async () => {
    const store = open();
    server.hasDate = false;
    const error = (await rejectionOf(store.tryAcquire('key', 'a', TTL))) as Error;
    expect(error).toMatchObject(STORE_ERROR);
    expect(error.message).toContain('Date header');
    expect(server.items().size).toBe(0);
  });

  it('leaves an item that is not a lease as it is, and says which', async () => {
    const store = open();
    const item = { name: { S: 'key' }, text: { S: 'other' } };
    server.items().set('key', item);
    for (const ask of [
      () => store.tryAcquire('key', 'a', TTL),
      () => store.release('key', 'a'),
      () => store.inspect('key'),
    ]) {
      const error = (await rejectionOf(ask())) as Error;
      expect(error).toMatchObject(STORE_ERROR);
      expect(error.message).toContain('"key" of the table is not a lease');
    }
    expect(server.items().get('key')).toEqual(item);
  });

  it('fails a waiting acquisition at once if the table does not exist', async () => {
    const manager = new LeaseManager({ store: open({ table: 'missing' }) });
    const error = await rejectionOf(manager.acquire('key', { timeout: 50_000 }));
    expect(error).toMatchObject({ code: 'ERR_LEASE_STORE_DENIED' });
  });

  it('lists leases of several pages in order', async () => {
    const store = open();
    const keys = Array.from({ length: 120 }, (_, i) => `${i + 100}`);
    await Promise.all(keys.map((key) => store.tryAcquire(key, 'a', TTL)));
    await store.tryAcquire('100', 'a', TTL);
    expect((await store.list()).map(({ key }) => key)).toEqual(keys);
    expect((await store.list({ limit: 3 })).map(({ key }) => key)).toEqual(keys.slice(0, 3));
    expect(server.requests).toContain('Scan');
  });

  it('acquires up to 100 keys in one transaction, and more of them one after the other', async () => {
    const store = open();
    const keys = Array.from({ length: 101 }, (_, i) => `key ${i}`);
    expect([store.inOneStep!(keys.slice(1)), store.inOneStep!(keys)]).toEqual([true, false]);
    expect(await store.tryAcquireAll(keys.slice(1), 'a', TTL)).toHaveLength(100);
    expect(server.requests.filter((name) => name === 'TransactWriteItems')).toHaveLength(1);
  });

  it('adds one middleware to a client, whatever the number of its stores', () => {
    const client = connectDynamodb(server.url);
    const names = (): string[] => (client.middlewareStack as { identify(): string[] }).identify();
    const before = names().length;
    for (let i = 0; i < 3; i++) dynamodbLeaseStore({ client });
    expect(names()).toHaveLength(before + 1);
  });

  it.each([
    ['nothing', undefined],
    ['a text', 'http://localhost'],
    ['an object without methods', {}],
    ['a DynamoDBClient', connectWithoutMethods('http://127.0.0.1:1')],
  ])('refuses %s in place of a DynamoDB', (_what, client) => {
    const error = thrownBy(() => dynamodbLeaseStore({ client: client as never }));
    expect(error).toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
    expect((error as Error).message).toContain('a DynamoDB (not a DynamoDBClient)');
  });

  it.each([-1, 0.5, 60_001, NaN])('refuses a skew of %s', (skew) => {
    const client = connectDynamodb(server.url);
    expect(thrownBy(() => dynamodbLeaseStore({ client, skew }))).toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
    expect(thrownBy(() => dynamodbLeaseStore({ client, table: '' }))).toMatchObject({
      code: 'ERR_OUT_OF_RANGE',
    });
  });

  it('shows no credentials', async () => {
    const store = open({ clientModule: 'file:///client.mjs', table: 'missing' });
    const manager = new LeaseManager({ store, renew: { background: true }, maxHold: TTL });
    const error = (await rejectionOf(store.tryAcquire('key', 'a', TTL))) as Error;
    for (const value of [store, manager, store.source, error, error.message, error.stack]) {
      expect(inspect(value, { depth: 20, showHidden: true })).not.toContain(SECRET_KEY);
    }
    await manager.close();
  });
}

if (missingPackage === undefined) describe('the DynamoDB store', describeStore);
else reportMissing('the DynamoDB store, with lost answers', missingPackage, RECIPES_ADVICE);
