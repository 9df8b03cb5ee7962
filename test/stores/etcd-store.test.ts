import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseStoreError } from 'stripelock';
import { EtcdGateway } from '../support/etcd-gateway.js';
import { base64, hasEtcd } from '../support/etcd-server.mjs';
import { EtcdScene, expectSoon, GRANT } from './etcd-setup.js';

const LONG = 60_000;

describe.runIf(hasEtcd)('the etcd store', () => {
  const etcd = new EtcdScene();
  beforeEach(() => etcd.begin());
  const put = (key: string, value: string): Promise<unknown> =>
    etcd.ask('kv/put', { key: base64(etcd.prefix + key), value: base64(value) });

  it('keeps a lease at a key that a person can read, and leaves nothing when it is released and the store is closed', async () => {
    const store = etcd.store();
    const token = await store.tryAcquire('job:nightly', 'me', LONG, 'host a');
    const entry = await etcd.entry('job:nightly');
    const kept = JSON.parse(Buffer.from(entry!.value, 'base64').toString()) as { base: string };
    expect(kept).toEqual({ base: expect.any(String) as string, owner: 'me', info: 'host a' });
    expect(BigInt(kept.base) + BigInt(entry!.mod_revision)).toBe(token);
    expect(await etcd.leases()).toContain(entry!.lease);
    expect(await store.release('job:nightly', 'me')).toBe(true);
    expect(await etcd.entry('job:nightly')).toBeUndefined();
    await store.close();
    expect(await etcd.leases()).not.toContain(entry!.lease);
  });

  it('makes tokens rise from the time at which the prefix was first used', async () => {
    const before = BigInt(Date.now()) * 1_000_000n;
    const token = (await etcd.store().tryAcquire('key', 'me', LONG))!;
    const after = BigInt(Date.now()) * 1_000_000n;
    const { header } = (await etcd.ask('kv/range', { key: base64('x') })) as unknown as {
      header: { revision: string };
    };
    expect(token).toBeGreaterThan(before);
    expect(token).toBeLessThanOrEqual(after + BigInt(header.revision));
    expect((await etcd.store().tryAcquire('key 2', 'you', LONG))! > token).toBe(true);
  });

  it('makes tokens rise when all keys are lost, also if the clock is behind what the client has seen', async () => {
    const ahead = (BigInt(Date.now()) + 3_600_000n) * 1_000_000n;
    await put('base', String(ahead));
    const store = etcd.store();
    const first = (await store.tryAcquire('key', 'me', LONG))!;
    expect(first).toBeGreaterThan(ahead);
    await etcd.ask('kv/deleterange', { key: base64(etcd.prefix), range_end: base64(`${etcd.prefix}~`) });
    const second = (await store.tryAcquire('key', 'you', LONG))!;
    expect(second).toBeGreaterThan(first);
    // Another store reads the base that the first one has written.
    await store.release('key', 'you');
    expect((await etcd.store().tryAcquire('key', 'me', LONG))!).toBeGreaterThan(second);
  });

  it('reads the base again when another client has written it', async () => {
    const store = etcd.store();
    const first = (await store.tryAcquire('key', 'me', LONG))!;
    await store.release('key', 'me');
    const ahead = first + 1_000_000_000n;
    await put('base', String(ahead));
    expect((await store.tryAcquire('key', 'me', LONG))!).toBeGreaterThan(ahead);
  });

  it('fails if something else stands at its keys, and leaves that alone', async () => {
    const store = etcd.store();
    const values = ['some text', '{}', '[]', 'null', '{"owner":"me"}', '{"base":"-1","owner":"me"}'];
    for (const value of values) {
      await put('lease/key', value);
      await expect(store.tryAcquire('key', 'me', LONG), value).rejects.toThrow(/is not a lease/);
      await expect(store.renew('key', 'me', LONG)).rejects.toBeInstanceOf(LeaseStoreError);
      await expect(store.release('key', 'me')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
      await expect(store.inspect('key')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
      expect((await etcd.entry('key'))?.value).toBe(base64(value));
    }
    await put('base', 'no number');
    await expect(etcd.store().tryAcquire('free', 'me', LONG)).rejects.toThrow(/is not a base of tokens/);
    expect(await etcd.entry('free')).toBeUndefined();
  });

  it('fails only for the one of many at whose key something else stands', async () => {
    const store = etcd.store();
    const keys = Array.from({ length: 5 }, (_, i) => `key ${i}`);
    await put('lease/key 2', 'some text');
    const expectOne = async (results: Promise<unknown>[]): Promise<void> => {
      const { length } = keys;
      const settled = await Promise.allSettled(results);
      expect(settled.map(({ status }) => status === 'fulfilled')).toEqual(
        Array.from({ length }, (_, i) => i !== 2),
      );
    };
    await expectOne(keys.map((key) => store.tryAcquire(key, 'me', LONG)));
    for (const key of ['key 0', 'key 4']) expect(await store.inspect(key)).toMatchObject({ owner: 'me' });
    await expectOne(keys.map((key) => store.renew(key, 'me', LONG)));
    await expectOne(keys.map((key) => store.release(key, 'me')));
    for (const key of ['key 0', 'key 4']) expect(await store.inspect(key)).toBeUndefined();
  });

  it('asks for whole seconds that are more than the holder counts on, by the allowed drift', async () => {
    const secondsFor = async (ttl: number, drift?: number): Promise<unknown> => {
      const store = etcd.store(drift === undefined ? {} : { drift });
      await store.tryAcquire('key', 'me', ttl);
      const { grantedTTL } = await etcd.ask('lease/timetolive', { ID: (await etcd.entry('key'))!.lease });
      await store.release('key', 'me');
      return Number(grantedTTL);
    };
    expect(await secondsFor(2996)).toBe(3);
    // With a millisecond for each thousand, and one for the clocks, that is more than three seconds.
    expect(await secondsFor(2997)).toBe(4);
    expect(await secondsFor(3000, 0)).toBe(4);
    expect(await secondsFor(3000, 1)).toBe(7);
  });

  it('takes keys of any bytes up to those that a request can have, and prefixes, each apart', async () => {
    const store = etcd.store();
    const keys = ['\ud800', '\udc00', '\0', 'ä', '"', '\\', 'x'.repeat(10_000), '/', ''.padEnd(3, '😀')];
    for (const key of keys) expect(await store.tryAcquire(key, `owner of ${key}`, LONG)).toBeTypeOf('bigint');
    for (const key of keys) expect((await store.inspect(key))?.owner).toBe(`owner of ${key}`);
    expect(await etcd.store({ prefix: `${etcd.prefix}2` }).inspect('ä')).toBeUndefined();
    expect(await store.releaseAll(keys.slice(0, 2), `owner of ${keys[0]!}`)).toEqual([true, false]);
  });

  it('leases 63 keys in one step, and says that it cannot do more', async () => {
    const store = etcd.store();
    const keys = Array.from({ length: 63 }, (_, i) => `key ${i}`);
    expect([store.inOneStep!(keys), store.inOneStep!([...keys, 'one more'])]).toEqual([true, false]);
    // They are held already, so all that a transaction can compare is compared.
    for (let i = 0; i < 2; i++) expect(await store.tryAcquireAll(keys, 'me', LONG)).toHaveLength(63);
    expect((await store.renewAll(keys, 'me', LONG)).every(Boolean)).toBe(true);
    expect((await store.renewAll(keys, 'me', 2 * LONG, 'info')).every(Boolean)).toBe(true);
    expect((await store.releaseAll(keys, 'me')).every(Boolean)).toBe(true);
  });

  it('renews what another client has granted, first by writing, then without', async () => {
    const [granting, renewing] = [etcd.store(), etcd.store()];
    const token = await granting.tryAcquire('key', 'me', LONG, 'info');
    const before = await etcd.entry('key');
    expect(await renewing.renew('key', 'me', LONG)).toBe(true);
    const taken = await etcd.entry('key');
    // With the same etcd lease: another one would cost as much as an acquisition.
    expect(taken!.lease).toBe(before!.lease);
    expect(BigInt(taken!.mod_revision)).toBeGreaterThan(BigInt(before!.mod_revision));
    expect(await renewing.renew('key', 'me', LONG)).toBe(true);
    expect(await etcd.entry('key')).toEqual(taken);
    expect(await granting.inspect('key')).toMatchObject({ owner: 'me', token, info: 'info' });
    // The first one takes it back, also by writing.
    expect(await granting.renew('key', 'me', LONG)).toBe(true);
    const back = await etcd.entry('key');
    expect(back!.lease).toBe(before!.lease);
    expect(BigInt(back!.mod_revision)).toBeGreaterThan(BigInt(taken!.mod_revision));
    expect(await renewing.renew('key', 'me', LONG)).toBe(true);
    expect(await granting.release('key', 'me')).toBe(true);
    expect(await etcd.entry('key')).toBeUndefined();
  });

  it('renews many leases of another client with a few requests, and makes no etcd lease for that', async () => {
    const gateway = await EtcdGateway.before(etcd.cluster.port);
    onTestFinished(() => gateway.close());
    const granting = etcd.store();
    const renewing = etcd.store({ endpoints: [gateway.endpoint] });
    const keys = Array.from({ length: 200 }, (_, i) => `key ${i}`);
    await Promise.all(keys.map((key) => granting.tryAcquire(key, `owner of ${key}`, LONG)));
    for (let beat = 0; beat < 2; beat++) {
      gateway.asked.length = 0;
      const renewals = keys.map((key) => renewing.renew(key, `owner of ${key}`, LONG));
      const foreign = renewing.renew('key 0', 'somebody else', LONG);
      expect((await Promise.all(renewals)).every(Boolean)).toBe(true);
      expect(await foreign).toBe(false);
      // Each 63 keys take: a look, a write, a beat, a look.
      expect(gateway.asked.length).toBeLessThanOrEqual(20);
      expect(gateway.asked).not.toContain(GRANT);
    }
  });

  it('shows a lease that another client renews while it is looked at, and none whose time ends then', async () => {
    const gateway = await EtcdGateway.before(etcd.cluster.port);
    onTestFinished(() => gateway.close());
    const store = etcd.store();
    const token = await store.tryAcquire('key', 'me', LONG);
    const look = etcd.store({ endpoints: [gateway.endpoint] });
    const meanwhile = (act: (lease: string) => Promise<unknown>): void => {
      let asked = false;
      gateway.rule = async ({ path, forward }) => {
        if (path === 'lease/timetolive' && !asked) {
          asked = true;
          await act((await etcd.entry('key'))!.lease!);
        }
        return forward();
      };
    };
    // Another length: the key is bound to a lease of that, and the former one is revoked.
    meanwhile(async (lease) => {
      await etcd.store().renew('key', 'me', LONG + 5000, 'seen');
      await expectSoon(async () => (await etcd.leases()).includes(lease)).toBe(false);
    });
    expect(await look.inspect('key')).toMatchObject({ owner: 'me', token, info: 'seen' });
    meanwhile((lease) => etcd.ask('lease/revoke', { ID: lease }));
    expect(await look.inspect('key')).toBeUndefined();
  });

  it('refuses operations after it was closed, and closes twice', async () => {
    const store = etcd.store();
    await store.close();
    await store.close();
    await expect(store.tryAcquire('key', 'me', LONG)).rejects.toThrow(/was closed/);
    await expect(store.inspect('key')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    store.onRelease('key', () => undefined)();
  });
});
