import { describe, expect, it } from 'vitest';
import { mongodbLeaseStore } from 'stripelock/mongodb';
import { HeldRequests } from '../support/held-requests.js';
import { MongodbScene, mongodbDrivers } from './mongodb-setup.js';
import { expectNoGroup } from './readers.js';

const LONG = 60_000;
/** Milliseconds of a store whose requests are held. */
const HASTE = 300;
const NAMESPACE = 'test.leases';
const TIME = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z';

describe.each(mongodbDrivers)('shared mode in the MongoDB store on %s', (driver) => {
  const mongo = new MongodbScene(driver);
  const documentOf = (id = 'key'): Record<string, unknown> =>
    mongo.server.data.collection(NAMESPACE).get(id) as Record<string, unknown>;

  it('is one command for each operation', async () => {
    await mongo.store.inspect('key');
    mongo.sent();
    const grant = await mongo.store.tryAcquireShared('key', 'r1', LONG);
    await mongo.store.tryAcquireShared('key', 'r2', LONG);
    await mongo.store.putOffReaders('key', LONG);
    await mongo.store.tryAcquireShared('key', 'r3', LONG);
    await mongo.store.renew('key', grant!.group, LONG);
    for (const reader of ['r1', 'r2']) await mongo.store.releaseShared('key', reader);
    const join = 'findAndModify';
    expect(mongo.sent()).toEqual([join, join, 'update', join, 'update', 'update', 'update']);
  });

  it('keeps the readers in the place of the info, and leaves a released document after the last one', async () => {
    const grant = await mongo.store.tryAcquireShared('key', 'r1', LONG);
    await mongo.store.tryAcquireShared('key', 'r2', LONG);
    const { leaseEnds: _, info, ...rest } = documentOf();
    expect(rest).toEqual({
      _id: 'key',
      owner: `stripelock:readers:r1:${grant!.token}`,
      token: grant!.token,
      abandoned: null,
    });
    expect(info).toMatch(new RegExp(`^${TIME} 0,r1,r2,$`));
    await mongo.store.releaseShared('key', 'r1');
    expect(documentOf()['info']).toMatch(new RegExp(`^${TIME} 0,r2,$`));
    await mongo.store.releaseShared('key', 'r2');
    const { leaseEnds, ...released } = documentOf();
    expect(released).toEqual({ _id: 'key', owner: '', token: grant!.token, info: '', abandoned: null });
    expect((leaseEnds as Date).getTime()).toBeLessThanOrEqual(Date.now());
  });

  it('keeps the time in the free document, for one exclusive grant', async () => {
    await mongo.store.tryAcquireShared('key', 'r1', LONG);
    await mongo.store.putOffReaders('key', LONG);
    await mongo.store.releaseShared('key', 'r1');
    expect(documentOf()).toMatchObject({ owner: '', abandoned: null });
    expect(documentOf()['info']).toMatch(new RegExp(`^${TIME}$`));
    expect(await mongo.store.tryAcquireShared('key', 'r2', LONG)).toBeUndefined();
    await mongo.store.tryAcquire('key', 'writer', LONG);
    await mongo.store.release('key', 'writer');
    expect(documentOf()).toMatchObject({ owner: '', info: '', abandoned: null });
  });

  it('is no group if another owner has the key, whatever its info', async () => {
    await expectNoGroup(mongo.store, '2026-01-01T00:00:00.000Z 0,a,');
  });

  it('writes nothing if it is refused, or puts off no one', async () => {
    await mongo.store.tryAcquire('key', 'writer', LONG, ',r1,');
    await mongo.store.tryAcquireShared('shared', 'r1', LONG);
    await mongo.store.putOffReaders('shared', LONG);
    const { place } = mongo.server.data;
    expect(await mongo.store.tryAcquireShared('key', 'r1', LONG)).toBeUndefined();
    expect(await mongo.store.releaseShared('key', 'r1')).toBe(false);
    expect(await mongo.store.putOffReaders('key', LONG)).toBe(false);
    expect(await mongo.store.tryAcquireShared('shared', 'r2', LONG)).toBeUndefined();
    expect(await mongo.store.releaseShared('shared', 'r2')).toBe(false);
    expect(await mongo.store.putOffReaders('shared', 1)).toBe(true);
    expect(mongo.server.data.place).toBe(place);
  });

  it('leaves a document alone that is not a lease', async () => {
    const leaseEnds = new Date(Date.now() + LONG);
    const owner = 'stripelock:readers:r1';
    const readers = '2026-01-01T00:00:00.000Z 0,r1,';
    for (const fields of [
      { name: 'r1' },
      { owner },
      { owner, leaseEnds, info: 5 },
      { owner: `${owner}:`, leaseEnds, info: readers },
    ]) {
      mongo.server.data.change(NAMESPACE, 'key', { _id: 'key', ...fields });
      const asked = mongo.store.tryAcquireShared('key', 'r1', LONG);
      await expect(asked).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
      expect(documentOf()).toEqual({ _id: 'key', ...fields });
    }
  });

  it('notifies waiters only of the release of the last reader', async () => {
    const other = await mongo.storeOnAnotherClient();
    let woken = 0;
    other.onRelease('key', () => woken++);
    await expect.poll(() => mongo.server.streams, { timeout: 20_000 }).toBe(1);
    for (const reader of ['r1', 'r2', 'r3']) await mongo.store.tryAcquireShared('key', reader, LONG);
    await mongo.store.putOffReaders('key', LONG);
    await mongo.store.releaseShared('key', 'r1');
    await mongo.store.releaseShared('key', 'r2');
    // The stream reports changes in order. So when it reports this change, it has reported all earlier changes of the key.
    let last = 0;
    other.onRelease('last', () => last++);
    await mongo.store.tryAcquire('last', 'writer', LONG);
    const before = woken;
    await mongo.store.release('last', 'writer');
    await expect.poll(() => last, { timeout: 20_000 }).toBeGreaterThan(0);
    expect(woken).toBe(before);
    await mongo.store.releaseShared('key', 'r3');
    await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThan(before);
    // Otherwise the driver would look for the server after it has stopped.
    await other.close();
  });

  it('is one group if readers create the document at once, and the server refuses some by a duplicate key', async () => {
    await mongo.store.inspect('key');
    mongo.server.fail({ command: 'findAndModify', error: { code: 11000 }, times: 20 });
    const readers = Array.from({ length: 20 }, (_, i) => `r${i}`);
    const grants = await Promise.all(
      readers.map((reader) => mongo.store.tryAcquireShared('key', reader, LONG)),
    );
    for (const grant of grants) expect(grant).toEqual(grants[0]);
    const left = await Promise.all(readers.map((reader) => mongo.store.releaseShared('key', reader)));
    expect(left).toEqual(readers.map(() => true));
    expect(await mongo.store.inspect('key')).toBeUndefined();
  });

  it('is the same for a command whose answer is lost, and which the driver sends again', async () => {
    const retry = { code: 91, labels: ['RetryableWriteError'] };
    const lose = (command: string): void => mongo.server.fail({ command, error: retry, executes: true });
    lose('findAndModify');
    const grant = await mongo.store.tryAcquireShared('key', 'r1', LONG);
    lose('findAndModify');
    expect(await mongo.store.tryAcquireShared('key', 'r2', LONG)).toEqual(grant);
    lose('update');
    expect(await mongo.store.releaseShared('key', 'r1')).toBe(true);
    lose('update');
    expect(await mongo.store.releaseShared('key', 'r2')).toBe(true);
    expect(documentOf()['owner']).toBe('');
  });

  it('removes a reader whose request arrives after its time limit, and no other reader', async () => {
    const requests = new HeldRequests();
    const collection = requests.before(mongo.collection, ['findOneAndUpdate', 'updateOne']);
    const store = mongodbLeaseStore({ collection, timeout: HASTE });
    await store.inspect('key');
    requests.holds = true;
    await expect(store.tryAcquireShared('key', 'late', LONG)).rejects.toMatchObject({
      code: 'ERR_LEASE_STORE',
    });
    requests.holds = false;
    const grant = await mongo.store.tryAcquireShared('key', 'r1', LONG);
    await requests.letGo();
    await expect.poll(() => documentOf()['info'], { timeout: 20_000 }).toMatch(/ 0,r1,$/);
    expect(await mongo.store.inspect('key')).toMatchObject({ owner: grant!.group, token: grant!.token });
    // A release that arrives late names its reader.
    requests.holds = true;
    await expect(store.releaseShared('key', 'r1')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    requests.holds = false;
    await mongo.store.releaseShared('key', 'r1');
    const later = await mongo.store.tryAcquireShared('key', 'r2', LONG);
    await requests.letGo();
    expect(await mongo.store.inspect('key')).toMatchObject({ owner: later!.group });
    await store.close();
  });

  it('wakes a reader that is put off when it may ask again', async () => {
    await mongo.store.tryAcquireShared('key', 'r1', LONG);
    let woken = 0;
    mongo.store.onRelease('key', () => woken++);
    await expect.poll(() => mongo.server.streams, { timeout: 20_000 }).toBe(1);
    await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThan(0);
    await mongo.store.putOffReaders('key', 500);
    const before = woken;
    expect(await mongo.store.tryAcquireShared('key', 'r2', LONG)).toBeUndefined();
    await expect.poll(() => woken, { timeout: 20_000 }).toBeGreaterThan(before);
    expect(await mongo.store.tryAcquireShared('key', 'r2', LONG)).toBeDefined();
  });
});
