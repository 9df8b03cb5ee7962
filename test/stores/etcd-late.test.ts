import { beforeEach, describe, expect, it } from 'vitest';
import { hasEtcd } from '../support/etcd-server.mjs';
import type { EtcdGateway, Passing } from '../support/etcd-gateway.js';
import { EtcdScene, type EtcdStore, gate, isAcquisition, REVOKE, TXN } from './etcd-setup.js';

const LONG = 60_000;
/** Milliseconds of a store that gives up soon: enough for what does not hang, on a busy machine. */
const HASTE = 1500;

describe.runIf(hasEtcd)('a late or repeated request of the etcd store', () => {
  const etcd = new EtcdScene();
  let gateway: EtcdGateway;
  let store: EtcdStore;

  beforeEach(async () => {
    ({ gateway, store } = await etcd.beginWithTokens());
  });

  it.each(['the same', 'another'])(
    'does not shorten a lease that %s store has renewed, when another grant to its owner comes late',
    async (which) => {
      const other = which === 'another' ? etcd.store() : store;
      await other.tryAcquire('key', 'me', LONG);
      const [asked, renewed] = [gate(), gate()];
      // The store knows its own grant. Otherwise the first transaction is refused, and shows the grant.
      const first = which === 'another' ? 2 : 1;
      let acquisitions = 0;
      gateway.rule = async (request) => {
        if (isAcquisition(request) && ++acquisitions === first) {
          asked.open();
          await renewed.opened;
        }
        return request.forward();
      };
      const acquired = store.tryAcquire('key', 'me', LONG / 3);
      await asked.opened;
      const { lease } = (await etcd.entry('key'))!;
      expect(await other.renew('key', 'me', LONG)).toBe(true);
      renewed.open();
      const token = await acquired;
      const state = await store.inspect('key');
      expect(state).toMatchObject({ owner: 'me', token });
      expect(state!.remaining).toBeGreaterThan(LONG / 2);
      expect((await etcd.entry('key'))!.lease).not.toBe(lease);
      // The renewal has made one transaction fail.
      expect(acquisitions).toBe(first + 1);
    },
  );

  it('frees no key of its owner if another grant to the owner has no answer', async () => {
    const other = etcd.store();
    await other.tryAcquire('key', 'me', LONG);
    const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
    await hasty.tryAcquire('other', 'me', LONG);
    let acquisitions = 0;
    gateway.rule = async (request) => {
      const answer = await request.forward();
      return isAcquisition(request) && ++acquisitions === 2 ? new Promise(() => undefined) : answer;
    };
    await expect(hasty.tryAcquire('key', 'me', LONG)).rejects.toThrow(/has not answered/);
    expect(acquisitions).toBe(2);
    // A revocation would be sent before this.
    expect(await hasty.renew('other', 'me', LONG)).toBe(true);
    expect(gateway.asked).not.toContain(REVOKE);
    expect(await other.renew('key', 'me', LONG)).toBe(true);
    expect(await store.inspect('key')).toMatchObject({ owner: 'me' });
  });

  it('returns the token of a grant that another client has renewed before the acquisition was repeated', async () => {
    const other = etcd.store();
    void gateway.once(TXN, async ({ forward }) => {
      await forward();
      expect(await other.renew('key', 'me', LONG)).toBe(true);
      return 'cut';
    });
    const token = await store.tryAcquire('key', 'me', LONG);
    expect(await other.inspect('key')).toMatchObject({ owner: 'me', token });
    // The other client has written the key last, so a renewal rewrites it.
    const before = (await etcd.entry('key'))!.mod_revision;
    expect(await store.renew('key', 'me', LONG)).toBe(true);
    expect((await etcd.entry('key'))!.mod_revision).not.toBe(before);
    expect(await store.release('key', 'me', token)).toBe(true);
    expect(await etcd.entry('key')).toBeUndefined();
  });

  it('keeps a key that an earlier send has kept, and changes nothing when the first comes again', async () => {
    const token = (await store.tryAcquire('key', 'me', LONG))!;
    let first: Passing | undefined;
    void gateway.once(TXN, async (request) => {
      first = request;
      await request.forward();
      return 'cut';
    });
    expect(await store.keep('key', 'me', 2 * LONG, token)).toBe(true);
    const kept = await etcd.entry('key');
    expect(await store.inspect('key')).toMatchObject({ owner: 'stripelock:kept:me', token });
    await first!.forward();
    expect(await store.keep('key', 'me', LONG, token)).toBe(true);
    expect(await etcd.store().keep('key', 'me', LONG, token)).toBe(true);
    expect(await etcd.entry('key')).toEqual(kept);
  });

  it('does not take the renewal of another client for its own, if that wrote the same value', async () => {
    const other = etcd.store();
    await other.tryAcquire('key', 'me', LONG);
    const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
    void gateway.once(TXN, async ({ forward }) => {
      await forward();
      expect(await other.renew('key', 'me', LONG)).toBe(true);
      return 'cut';
    });
    expect(await hasty.renew('key', 'me', LONG)).toBe(true);
    let late: Passing | undefined;
    gateway.rule = (request) => {
      if (request.path !== TXN) return request.forward();
      late = request;
      return new Promise(() => undefined);
    };
    await expect(hasty.renew('key', 'me', LONG, 'late')).rejects.toThrow(/has not answered/);
    expect(await other.renew('key', 'me', LONG)).toBe(true);
    const { lease } = (await etcd.entry('key'))!;
    await late!.forward();
    expect((await etcd.entry('key'))!.lease).toBe(lease);
  });
});
