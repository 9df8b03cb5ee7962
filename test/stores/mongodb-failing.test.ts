import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { block } from '../support/block.js';
import { rejectionOf } from '../support/waiting.js';
import { MongodbScene, mongodbDrivers } from './mongodb-setup.js';

const LONG = 60_000;
const STORE = { code: 'ERR_LEASE_STORE' };
const UNSUPPORTED = { code: 'ERR_MONGODB_UNSUPPORTED', name: 'LockError' };

/** A promise, and what resolves it. Resolves with the test, too, so that nothing hangs after it. */
function gate(): { passed: Promise<void>; open: () => void } {
  let open: () => void = () => undefined;
  const passed = new Promise<void>((resolve) => (open = resolve));
  onTestFinished(open);
  return { passed, open };
}

describe.each(mongodbDrivers)('the MongoDB store on %s, if something fails,', (driver) => {
  const mongo = new MongodbScene(driver);

  it('rejects with the error of the server as cause', async () => {
    await mongo.store.inspect('key');
    // Not writable primary, killed by the time limit, interrupted.
    for (const code of [10107, 50, 11601]) {
      mongo.server.fail({ command: 'findAndModify', error: { code } });
      const error = await rejectionOf(mongo.store.tryAcquire('key', 'a', LONG));
      expect(error).toMatchObject({ ...STORE, cause: { code } });
      mongo.server.fail({ command: 'update', error: { code } });
      expect(await rejectionOf(mongo.store.renew('key', 'a', LONG))).toMatchObject({
        ...STORE,
        cause: { code },
      });
    }
    expect(await mongo.store.tryAcquire('key', 'a', LONG)).toBeTypeOf('bigint');
  });

  it('is granted a key once, if the driver sends the command again after its answer was lost', async () => {
    await mongo.store.inspect('key');
    const lost = { code: 91, labels: ['RetryableWriteError'] };
    mongo.server.fail({ command: 'findAndModify', error: lost, executes: true });
    mongo.sent();
    const token = await mongo.store.tryAcquire('key', 'a', LONG);
    expect(mongo.sent()).toEqual(['findAndModify', 'findAndModify']);
    expect((await mongo.store.inspect('key'))?.token).toBe(token);
    mongo.server.fail({ command: 'update', error: lost, executes: true });
    expect(await mongo.store.release('key', 'a')).toBe(true);
  });

  it('does not count a grant that no majority has confirmed', async () => {
    await mongo.store.inspect('key');
    const writeConcernError = { code: 64, message: 'waiting for replication timed out' };
    mongo.server.fail({ command: 'findAndModify', writeConcernError });
    expect(await rejectionOf(mongo.store.tryAcquire('key', 'a', LONG))).toMatchObject(STORE);
    const { store } = mongo;
    for (const change of [() => store.renew('key', 'a', LONG), () => store.release('key', 'a')]) {
      mongo.server.fail({ command: 'update', writeConcernError });
      expect(await rejectionOf(change())).toMatchObject(STORE);
    }
    // A manager gives back what it does not count on.
    mongo.server.fail({ command: 'findAndModify', writeConcernError });
    const manager = new LeaseManager({ store: mongo.store });
    expect(await rejectionOf(manager.tryAcquire('other'))).toMatchObject(STORE);
    await expect.poll(() => mongo.store.inspect('other'), { timeout: 20_000 }).toBeUndefined();
  });

  it('fails a waiting acquisition at once if its user may not write, or if the server is of another kind', async () => {
    await mongo.store.inspect('key');
    for (const [code, expected] of [
      [13, { code: 'ERR_LEASE_STORE_DENIED', cause: { code: 13 } }],
      [115, UNSUPPORTED],
    ] as const) {
      mongo.server.fail({ command: 'findAndModify', error: { code } });
      const manager = new LeaseManager({ store: mongo.store });
      expect(await rejectionOf(manager.acquire('key', { timeout: 60_000 }))).toMatchObject(expected);
    }
  });

  it('rejects in bounded time if duplicate keys do not end', async () => {
    const store = mongo.storeWith({ timeout: 300 });
    await store.inspect('key');
    mongo.server.fail({ command: 'findAndModify', error: { code: 11000 }, times: 1_000_000 });
    expect(await rejectionOf(store.tryAcquire('key', 'a', LONG))).toMatchObject(STORE);
    mongo.sent();
    // Far longer than the longest pause between attempts.
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(mongo.sent()).toEqual([]);
  });

  it('rejects each operation in bounded time if the server hangs, also while it prepares', async () => {
    const hangs = gate();
    const unprepared = mongo.storeWith({ timeout: 50 });
    mongo.server.fail({ command: 'createIndexes', until: hangs.passed });
    expect(await rejectionOf(unprepared.tryAcquire('key', 'a', LONG))).toMatchObject(STORE);
    const store = mongo.storeWith({ timeout: 50 });
    await store.inspect('key').catch(() => undefined);
    for (const command of ['findAndModify', 'update', 'find']) {
      mongo.server.fail({ command, until: hangs.passed, times: 1_000_000 });
    }
    for (const asked of [
      store.tryAcquire('key', 'a', LONG),
      store.renew('key', 'a', LONG),
      store.release('key', 'a'),
      store.inspect('key'),
    ]) {
      expect(await rejectionOf(asked)).toMatchObject({ ...STORE, message: /has not answered within 50 ms/ });
    }
  });

  it('does not send an operation after preparing if it has already timed out', async () => {
    const hangs = gate();
    const store = mongo.storeWith({ timeout: 50 });
    mongo.server.fail({ command: 'createIndexes', until: hangs.passed });
    expect(await rejectionOf(store.tryAcquire('key', 'a', LONG))).toMatchObject(STORE);
    hangs.open();
    await expect.poll(() => mongo.sent(), { timeout: 20_000 }).toContain('listCollections');
    expect(await mongo.storeWith().inspect('key')).toBeUndefined();
    expect(mongo.sent()).not.toContain('findAndModify');
  });

  it('prepares the collection again if the server never answers', async () => {
    const hangs = gate();
    const store = mongo.storeWith({ timeout: 1000 });
    mongo.server.fail({ command: 'createIndexes', until: hangs.passed });
    const asked = [store.inspect('key'), store.tryAcquire('key', 'a', LONG)];
    for (const operation of asked) expect(await rejectionOf(operation)).toMatchObject(STORE);
    // On a busy machine, this attempt may be late, too.
    const answer = (): Promise<string> => store.inspect('key').then(() => 'answered', String);
    await expect.poll(answer, { timeout: 20_000 }).toBe('answered');
    hangs.open();
  });

  it('gives back a grant that is answered too late', async () => {
    const late = gate();
    const store = mongo.storeWith({ timeout: 50 });
    await mongo.store.inspect('key');
    await store.inspect('key').catch(() => undefined);
    mongo.server.fail({ command: 'findAndModify', answers: late.passed });
    expect(await rejectionOf(store.tryAcquire('key', 'a', LONG))).toMatchObject(STORE);
    expect((await mongo.store.inspect('key'))?.owner).toBe('a');
    late.open();
    await expect.poll(() => mongo.store.inspect('key'), { timeout: 20_000 }).toBeUndefined();
  });

  it('does not give back a late grant if its owner has the key through a later attempt', async () => {
    const [first, second] = [gate(), gate()];
    const store = mongo.storeWith({ timeout: 200 });
    await mongo.store.inspect('key');
    await store.inspect('key').catch(() => undefined);
    // The server executes the first attempt after the second.
    mongo.server.fail({ command: 'findAndModify', until: first.passed, answers: second.passed });
    expect(await rejectionOf(store.tryAcquire('key', 'a', LONG))).toMatchObject(STORE);
    const held = await store.tryAcquire('key', 'a', LONG);
    expect(held).toBeTypeOf('bigint');
    first.open();
    await expect
      .poll(async () => (await mongo.store.inspect('key'))!.token > held!, { timeout: 20_000 })
      .toBe(true);
    mongo.sent();
    second.open();
    // The answer arrives before the last of these, which are sent later.
    for (let i = 0; i < 10; i++) await mongo.store.inspect('key');
    expect(new Set(mongo.sent())).toEqual(new Set(['find']));
    expect((await mongo.store.inspect('key'))?.owner).toBe('a');
  });

  it('counts answers that arrived while the event loop was blocked', async () => {
    const store = mongo.storeWith({ timeout: 200 });
    await expect
      .poll(
        () =>
          store.inspect('key').then(
            () => true,
            () => false,
          ),
        { timeout: 20_000 },
      )
      .toBe(true);
    const asked = store.tryAcquire('key', 'a', LONG);
    block(600);
    expect(await asked).toBeTypeOf('bigint');
  });

  it('fails after it was closed', async () => {
    const store = mongo.storeWith();
    await store.close();
    await store.close();
    expect(await rejectionOf(store.inspect('key'))).toMatchObject(STORE);
    expect(store.onRelease('key', () => undefined)).toBeTypeOf('function');
  });

  it('fails at once, and closes, if its client was closed before it', async () => {
    const { client } = await mongo.connect();
    const store = mongo.storeWith({}, client.db('test').collection('leases'));
    await mongo.store.tryAcquire('held', 'another', LONG);
    await store.tryAcquire('key', 'a', LONG);
    // A change stream is open.
    const leave = store.onRelease('held', () => undefined);
    await expect.poll(() => mongo.sent(), { timeout: 20_000 }).toContain('aggregate');
    await client.close();
    expect(await rejectionOf(store.renew('key', 'a', LONG))).toMatchObject(STORE);
    expect(await rejectionOf(store.release('key', 'a'))).toMatchObject(STORE);
    leave();
    await store.close();
    expect((await mongo.store.inspect('key'))?.owner).toBe('a');
  });

  it('says so, with a code, if the engine does not understand it', async () => {
    await mongo.store.inspect('key');
    const answers: readonly (readonly [number, string])[] = [
      [17276, 'Use of undefined variable: NOW'],
      [9, 'the update operation document must contain atomic operators'],
      [40324, "Unrecognized pipeline stage name: '$unset'"],
      [168, "Unrecognized expression '$toLong'"],
      [238, 'support for aggregation pipelines in findAndModify is not implemented yet'],
      [303, 'Feature not supported: update with pipeline'],
      [2, 'Unsupported projection option: left'],
    ];
    for (const [code, message] of answers) {
      mongo.server.fail({ command: 'findAndModify', error: { code, message } });
      const error = await rejectionOf(mongo.store.tryAcquire('key', 'a', LONG));
      expect(error).toMatchObject({ ...UNSUPPORTED, cause: { code } });
      expect(String(error)).toContain(message);
    }
    mongo.server.fail({ command: 'findAndModify', error: { code: 2, message: 'cannot divide by zero' } });
    expect(await rejectionOf(mongo.store.tryAcquire('key', 'a', LONG))).toMatchObject(STORE);
  });

  it('refuses a collection with a collation, by which different keys are equal', async () => {
    mongo.server.data.setOptions('test.german', { collation: { locale: 'de', strength: 1 } });
    mongo.server.data.setOptions('test.simple', { collation: { locale: 'simple' } });
    const german = mongo.storeWith({}, mongo.client.db('test').collection('german'));
    for (const asked of [german.tryAcquire('key', 'a', LONG), german.inspect('key')]) {
      expect(await rejectionOf(asked)).toMatchObject({ ...UNSUPPORTED, message: /the collation de/ });
    }
    const simple = mongo.storeWith({}, mongo.client.db('test').collection('simple'));
    expect(await simple.tryAcquire('key', 'a', LONG)).toBeTypeOf('bigint');
  });

  it('works without an index that it may not create, and without options that it may not read', async () => {
    for (const code of [13, 85, 86]) {
      mongo.server.fail({ command: 'createIndexes', error: { code } });
      mongo.server.fail({ command: 'listCollections', error: { code: 13 } });
      const store = mongo.storeWith();
      expect(await store.tryAcquire(`key ${code}`, 'a', LONG)).toBeTypeOf('bigint');
    }
  });

  it('prepares the collection again if that failed', async () => {
    mongo.server.fail({ command: 'createIndexes', error: { code: 11601 } });
    expect(await rejectionOf(mongo.store.tryAcquire('key', 'a', LONG))).toMatchObject(STORE);
    expect(await mongo.store.tryAcquire('key', 'a', LONG)).toBeTypeOf('bigint');
  });
});
