import { describe, expect, it } from 'vitest';
import type { InfoLeaseState } from 'stripelock';
import { mongodbLeaseStore, type MongodbCollection } from 'stripelock/mongodb';
import { rejectionOf, thrownBy } from '../support/waiting.js';
import { MongodbScene, mongodbDrivers } from './mongodb-setup.js';

const LONG = 60_000;
const NAMESPACE = 'test.leases';

/** A document as the server has it. */
interface Stored {
  readonly _id: string;
  readonly owner: string;
  readonly leaseEnds: Date;
  readonly token: bigint;
  readonly info: string;
}

/** The options of a command that say how it is executed. */
interface Sent {
  readonly writeConcern: { readonly w: unknown; readonly wtimeout: unknown };
  readonly $readPreference?: { readonly mode: string };
  readonly lsid: { readonly id: { toString(encoding: 'hex'): string } };
  readonly maxTimeMS: unknown;
}

describe.each(mongodbDrivers)('the MongoDB store on %s', (driver) => {
  const mongo = new MongodbScene(driver);
  const documentOf = (id: string): Stored =>
    mongo.server.data.collection(NAMESPACE).get(id) as unknown as Stored;

  it('lists leases by one command, and skips documents that are no leases', async () => {
    const keys = Array.from({ length: 300 }, (_, i) => `key ${i + 100}`);
    for (const key of keys) await mongo.store.tryAcquire(key, 'a', 60_000);
    const leaseEnds = new Date(Date.now() + 60_000);
    await mongo.collection.updateOne(
      { _id: 'key 0' as never },
      [{ $set: { owner: { $literal: 'a' }, leaseEnds } }],
      { upsert: true, writeConcern: { w: 'majority' } },
    );
    mongo.sent();
    expect((await mongo.store.list()).map(({ key }) => key)).toEqual(keys);
    expect(mongo.sent()).toEqual(['find']);
  });

  it('grants a free key for its TTL only, even if the clock was set back since its release', async () => {
    await mongo.store.tryAcquire('key', 'a', LONG);
    await mongo.store.release('key', 'a');
    await mongo.collection.updateOne(
      { _id: 'key' as never },
      [{ $set: { leaseEnds: { $add: ['$$NOW', 100 * LONG] } } }],
      { writeConcern: { w: 'majority' } },
    );
    await mongo.store.tryAcquire('key', 'b', LONG);
    expect((await mongo.store.inspect('key'))!.remaining).toBeLessThanOrEqual(LONG);
  });

  it('cannot list a collection without `find`', async () => {
    const { collection } = mongo;
    const names = ['findOneAndUpdate', 'updateOne', 'findOne', 'createIndex', 'options', 'watch'] as const;
    const methods = names.map((name) => [name, (collection[name] as () => unknown).bind(collection)]);
    const wrapped = { collectionName: 'leases', ...Object.fromEntries(methods) } as MongodbCollection;
    await expect(mongo.storeWith({}, wrapped).list()).rejects.toMatchObject({ code: 'ERR_LEASE_LIST' });
  });

  it('prepares the collection once, and then sends one command for each operation', async () => {
    await mongo.store.tryAcquire('key', 'a', LONG);
    expect(mongo.sent()).toEqual(['createIndexes', 'listCollections', 'findAndModify']);
    await mongo.store.tryAcquire('key', 'b', LONG);
    await mongo.store.renew('key', 'a', LONG);
    await mongo.store.inspect('key');
    await mongo.store.release('key', 'a');
    expect(mongo.sent()).toEqual(['findAndModify', 'update', 'find', 'update']);
  });

  it('waits for a majority with each write, finds the key by its id alone, and limits the time at the server', async () => {
    const store = mongo.storeWith({ timeout: 2345 });
    await store.tryAcquire('key', 'a', LONG);
    await store.renew('key', 'a', LONG);
    await store.inspect('key');
    await store.release('key', 'a');
    const { log } = mongo.server;
    for (const { name, command } of log.filter(({ name }) => ['findAndModify', 'update'].includes(name))) {
      const { writeConcern, maxTimeMS } = command as unknown as Sent;
      expect(writeConcern.w).toBe('majority');
      expect([Number(writeConcern.wtimeout), Number(maxTimeMS)], name).toEqual([2345, 2345]);
    }
    const acquired = log.find(({ name }) => name === 'findAndModify')!.command;
    expect([acquired['query'], acquired['upsert']]).toEqual([{ _id: 'key' }, true]);
    expect(Number(log.find(({ name }) => name === 'find')!.command['maxTimeMS'])).toBe(2345);
  });

  it('sends no infinite time limit, and none that no timer reaches', async () => {
    for (const timeout of [Infinity, 2 ** 40]) {
      expect(await mongo.storeWith({ timeout }).tryAcquire('key', 'a', LONG)).toBeTypeOf('bigint');
    }
    const acquired = mongo.server.log.filter(({ name }) => name === 'findAndModify');
    for (const { command } of acquired) {
      expect(command).not.toHaveProperty('maxTimeMS');
      expect(command['writeConcern']).not.toHaveProperty('wtimeout');
    }
  });

  it('writes nothing when it is refused', async () => {
    await mongo.store.tryAcquire('key', 'a', LONG, 'info');
    const [before, place] = [documentOf('key'), mongo.server.data.place];
    expect(await mongo.store.tryAcquire('key', 'b', LONG, 'other')).toBeUndefined();
    expect(await mongo.store.release('key', 'b')).toBe(false);
    expect(await mongo.store.renew('key', 'b', LONG)).toBe(false);
    expect([documentOf('key'), mongo.server.data.place]).toEqual([before, place]);
  });

  it('leaves a document for the token of a released key, and an index that removes it a day later', async () => {
    const token = await mongo.store.tryAcquire('key', 'a', LONG, 'info');
    await mongo.store.release('key', 'a');
    const { owner, info, token: kept, leaseEnds, ...rest } = documentOf('key');
    expect([owner, info, kept, rest]).toEqual(['', '', token, { _id: 'key', abandoned: null }]);
    expect(leaseEnds.getTime()).toBeLessThanOrEqual(Date.now());
    const indexes = mongo.server.data.optionsOf(NAMESPACE)['indexes'] as object;
    expect(JSON.parse(JSON.stringify(Object.values(indexes)))).toMatchObject([
      { key: { leaseEnds: 1 }, expireAfterSeconds: 86_400 },
    ]);
  });

  it('gives tokens above the last one if the clock shows less, and above all it was given if the data is lost', async () => {
    const first = await mongo.store.tryAcquire('key', 'a', LONG);
    expect(first! / 1_000_000n).toBeGreaterThan(BigInt(Date.now() - LONG));
    const future = first! + 10n ** 15n;
    const change = (token: bigint): void => {
      const after = { ...documentOf('key'), owner: '', token };
      mongo.server.data.change(NAMESPACE, 'key', after);
    };
    change(future);
    expect(await mongo.store.tryAcquire('key', 'b', LONG)).toBe(future + 1n);
    mongo.server.data.change(NAMESPACE, 'key', undefined);
    expect(await mongo.store.tryAcquire('key', 'c', LONG)).toBe(future + 2n);
    // Another client knows only what the document has.
    const other = await mongo.storeOnAnotherClient();
    mongo.server.data.change(NAMESPACE, 'key', undefined);
    expect(await other.tryAcquire('key', 'd', LONG)).toBeLessThan(future);
  });

  it('asks again after a duplicate key or a write conflict', async () => {
    for (const code of [11000, 112]) {
      mongo.server.fail({ command: 'findAndModify', error: { code }, times: 3 });
      expect(await mongo.store.tryAcquire(`key ${code}`, 'a', LONG)).toBeTypeOf('bigint');
      mongo.server.fail({ command: 'update', error: { code }, times: 3 });
      expect(await mongo.store.renew(`key ${code}`, 'a', LONG)).toBe(true);
    }
  });

  it('is granted to one of many clients that create its document at once, even if the server refuses the others by a duplicate key', async () => {
    await mongo.store.inspect('key');
    // All get the answer that another was quicker, though none was.
    mongo.server.fail({ command: 'findAndModify', error: { code: 11000 }, times: 20 });
    const owners = Array.from({ length: 20 }, (_, i) => `owner ${i}`);
    const tokens = await Promise.all(owners.map((owner) => mongo.store.tryAcquire('key', owner, LONG)));
    expect(tokens.filter((token) => token !== undefined)).toHaveLength(1);
  });

  it('leaves a document alone that is not a lease', async () => {
    const date = new Date(0);
    const foreign: readonly object[] = [
      { name: 'somebody' },
      { name: 'somebody', owner: 'a' },
      { owner: 'a', leaseEnds: date, token: 'text' },
      { owner: 7, leaseEnds: date, token: 1n },
      { owner: 'a', leaseEnds: date, token: 1.5 },
      { token: 1n },
    ];
    for (const [i, document] of foreign.entries()) {
      const _id = `foreign ${i}`;
      mongo.server.data.change(NAMESPACE, _id, { _id, ...document });
      const asked = rejectionOf(mongo.store.tryAcquire(_id, 'a', LONG));
      expect(await asked, _id).toMatchObject({ code: 'ERR_LEASE_STORE' });
      expect(await mongo.store.renew(_id, 'a', LONG)).toBe(false);
      expect(await mongo.store.release(_id, 'a')).toBe(false);
      expect(await rejectionOf(mongo.store.inspect(_id))).toMatchObject({ code: 'ERR_LEASE_STORE' });
      expect(documentOf(_id)).toEqual({ _id, ...document });
    }
  });

  it('takes texts that look like operators as they are, and long keys by a hash', async () => {
    const texts = ['$owner', '$$NOW', '$$ROOT', '{}', '$', '$literal', 'a.b', '"', '\0', '\ud800'];
    const keys = [...texts, 'x'.repeat(10_000), `${'x'.repeat(9_999)}y`, '\ud800'.repeat(5_000)];
    for (const key of keys) {
      expect(await mongo.store.tryAcquire(key, key, LONG, texts.includes(key) ? key : '')).toBeTypeOf(
        'bigint',
      );
    }
    for (const key of keys) {
      const { owner, info } = (await mongo.store.inspect(key)) as InfoLeaseState;
      expect([owner, info]).toEqual([key, texts.includes(key) ? key : undefined]);
      expect(await mongo.store.renew(key, key, LONG, key.slice(0, 20))).toBe(true);
      expect(await mongo.store.tryAcquire(key, `not ${key}`, LONG)).toBeUndefined();
      expect(await mongo.store.release(key, key)).toBe(true);
    }
    const ids = [...mongo.server.data.collection(NAMESPACE).keys()];
    expect(ids).toHaveLength(keys.length);
    expect(Math.max(...ids.map((id) => Buffer.byteLength(id)))).toBeLessThanOrEqual(512);
  });

  it('reads the primary, and writes as it must, whatever the settings of the client are', async () => {
    const settings: readonly object[] = [
      { promoteLongs: false },
      { promoteValues: false },
      { raw: true },
      { useBigInt64: true },
      { w: 1 },
      { w: 0 },
      { w: 1, journal: false, wtimeoutMS: 5 },
      { readPreference: 'secondary', readConcernLevel: 'majority' },
      { retryWrites: false },
      { ignoreUndefined: true },
      { timeoutMS: 20_000 },
    ];
    for (const [i, options] of settings.entries()) {
      const store = await mongo.storeOnAnotherClient({}, options);
      const key = `key ${i}`;
      mongo.sent();
      expect(await store.tryAcquire(key, 'a', LONG, 'info'), JSON.stringify(options)).toBeTypeOf('bigint');
      expect(await store.renew(key, 'a', LONG)).toBe(true);
      expect(await store.inspect(key)).toMatchObject({ owner: 'a', info: 'info' });
      const [read] = mongo.server.log.filter(({ name }) => name === 'find');
      expect((read!.command as unknown as Sent).$readPreference?.mode ?? 'primary').not.toMatch('secondary');
      expect(read!.command['readConcern']).toEqual({ level: 'local' });
      expect(await store.release(key, 'a')).toBe(true);
    }
  });

  it('takes no part in a transaction of the caller', async () => {
    await mongo.client.withSession(async (session) => {
      session.startTransaction();
      expect(await mongo.store.tryAcquire('key', 'a', LONG)).toBeTypeOf('bigint');
      await session.abortTransaction();
      const theirs = (session.id as unknown as Sent['lsid']).id.toString('hex');
      for (const { command } of mongo.server.log) {
        expect(command).not.toHaveProperty('autocommit');
        expect(command).not.toHaveProperty('startTransaction');
        expect((command as unknown as Sent).lsid.id.toString('hex')).not.toBe(theirs);
      }
    });
    expect((await mongo.store.inspect('key'))?.owner).toBe('a');
  });

  it('keeps leases in the collection stripelock_leases of a database', async () => {
    const store = mongodbLeaseStore({ db: mongo.client.db('other') });
    await store.tryAcquire('key', 'a', LONG);
    expect(mongo.server.data.collection('other.stripelock_leases').size).toBe(1);
    await store.close();
  });

  it('refuses bad options', () => {
    const { collection } = mongo;
    const db = mongo.client.db('test');
    const wrong: readonly (readonly [unknown, string])[] = [
      [undefined, 'ERR_INVALID_ARG_TYPE'],
      [{}, 'ERR_INVALID_ARG_TYPE'],
      [{ collection: {} }, 'ERR_INVALID_ARG_TYPE'],
      [{ collection: mongo.client }, 'ERR_INVALID_ARG_TYPE'],
      [{ collection: db }, 'ERR_INVALID_ARG_TYPE'],
      [{ db: null }, 'ERR_INVALID_ARG_TYPE'],
      [{ db: collection }, 'ERR_INVALID_ARG_TYPE'],
      [{ db: 'leases' }, 'ERR_INVALID_ARG_TYPE'],
      [{ db, collection }, 'ERR_INVALID_ARG_TYPE'],
      [{ collection, timeout: '5' }, 'ERR_INVALID_ARG_TYPE'],
      [{ collection, timeout: -1 }, 'ERR_OUT_OF_RANGE'],
      [{ collection, drift: 2 }, 'ERR_OUT_OF_RANGE'],
      [{ collection, clientModule: 5 }, 'ERR_INVALID_ARG_TYPE'],
      [{ collection, clientModule: '' }, 'ERR_OUT_OF_RANGE'],
    ];
    for (const [options, code] of wrong) {
      expect(
        thrownBy(() => mongodbLeaseStore(options as never)),
        JSON.stringify(code),
      ).toMatchObject({ code });
    }
  });
});
