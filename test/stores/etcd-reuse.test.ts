import { beforeEach, describe, expect, it } from 'vitest';
import { base64, hasEtcd } from '../support/etcd-server.mjs';
import type { EtcdGateway } from '../support/etcd-gateway.js';
import {
  EtcdScene,
  type EtcdStore,
  expectSoon,
  gate,
  GRANT,
  isAcquisition,
  REVOKE,
  TXN,
} from './etcd-setup.js';

const LONG = 60_000;

describe.runIf(hasEtcd)('an etcd lease that the store reuses for another key', () => {
  const etcd = new EtcdScene();
  let gateway: EtcdGateway;
  let store: EtcdStore;

  beforeEach(async () => {
    ({ gateway, store } = await etcd.beginWithTokens());
  });

  // A renewal has bound the key to another etcd lease, and the store has reused the earlier one.
  it.each(['is still held', 'is gone'])(
    'outlasts the release of a key that another request has moved, and that %s',
    async (state) => {
      await store.tryAcquire('key', 'me', LONG);
      const { lease } = (await etcd.entry('key'))!;
      const [renewing, granted, freeing, moved] = [gate(), gate(), gate(), gate()];
      let [isRenewing, isFreeing] = [false, false];
      gateway.rule = async ({ path, body, forward }) => {
        if (path === GRANT && !isRenewing) {
          isRenewing = true;
          renewing.open();
          await granted.opened;
        }
        if (path !== TXN || isFreeing || !body.includes('requestDeleteRange')) return forward();
        isFreeing = true;
        freeing.open();
        await moved.opened;
        return 'cut';
      };
      const renewed = store.renew('key', 'me', LONG, 'new');
      await renewing.opened;
      const freed = store.release('key', 'me');
      await freeing.opened;
      granted.open();
      expect(await renewed).toBe(true);
      const token = await store.tryAcquire('key 2', 'me', LONG);
      expect((await etcd.entry('key 2'))!.lease).toBe(lease);
      if (state === 'is gone') {
        await etcd.ask('kv/deleterange', { key: base64(`${etcd.prefix}lease/key`) });
      }
      moved.open();
      expect(await freed).toBe(true);
      expect(await etcd.entry('key')).toBeUndefined();
      expect(await store.inspect('key 2')).toMatchObject({ owner: 'me', token });
    },
  );

  it('is not the one of a renewal whose repetition finds that another renewal has rewritten the key', async () => {
    await store.tryAcquire('key', 'me', LONG);
    const [asked, granted] = [gate(), gate()];
    let [isCut, grants] = [false, 0];
    gateway.rule = async ({ path, forward }) => {
      if (path === TXN && !isCut) {
        isCut = true;
        await forward();
        expect(await store.renew('key', 'me', LONG, 'second')).toBe(true);
        return 'cut';
      }
      if (path === GRANT && ++grants === 2) {
        asked.open();
        await granted.opened;
      }
      return forward();
    };
    const renewed = store.renew('key', 'me', LONG, 'first');
    await asked.opened;
    // The renewal asks for an etcd lease, or takes a parked one.
    const token = await store.tryAcquire('key 2', 'other', LONG);
    const { lease } = (await etcd.entry('key 2'))!;
    granted.open();
    expect(await renewed).toBe(true);
    expect((await etcd.entry('key'))!.lease).not.toBe(lease);
    expect(await store.inspect('key')).toMatchObject({ info: 'first' });
    expect(await store.inspect('key 2')).toMatchObject({ owner: 'other', token });
  });

  // The first transaction rewrites the key, and the second binds it.
  it.each([1, 2])(
    'outlasts an acquisition by the previous owner, if the key was freed before transaction %i',
    async (nth) => {
      await store.tryAcquire('key', 'me', LONG);
      const { lease } = (await etcd.entry('key'))!;
      const [acquiring, freed] = [gate(), gate()];
      let txns = 0;
      gateway.rule = async ({ path, forward }) => {
        if (path === TXN && ++txns === nth) {
          acquiring.open();
          await freed.opened;
        }
        return forward();
      };
      const acquired = store.tryAcquire('key', 'me', LONG);
      await acquiring.opened;
      expect(await store.release('key', 'me')).toBe(true);
      const token = await store.tryAcquire('key 2', 'other', LONG);
      expect((await etcd.entry('key 2'))!.lease).toBe(lease);
      gateway.asked.length = 0;
      freed.open();
      expect(await acquired).toBeTypeOf('bigint');
      // A revocation would be sent before this.
      expect(await store.release('key', 'me')).toBe(true);
      expect(gateway.asked).not.toContain(REVOKE);
      expect(await store.inspect('key 2')).toMatchObject({ owner: 'other', token });
    },
  );

  it('is not one that another store revokes, because that store has freed the key', async () => {
    await store.tryAcquire('key', 'me', LONG);
    const { gateway: elsewhere, store: other } = await etcd.behindGateway();
    const [acquiring, freed, revoking, bound] = [gate(), gate(), gate(), gate()];
    let [txns, isRevoked] = [0, false];
    gateway.rule = async (request) => {
      if (isAcquisition(request) && ++txns === 1) {
        acquiring.open();
        await freed.opened;
      }
      return request.forward();
    };
    elsewhere.rule = async ({ path, forward }) => {
      if (path !== REVOKE) return forward();
      revoking.open();
      await bound.opened;
      const answer = await forward();
      isRevoked = true;
      return answer;
    };
    const acquired = store.tryAcquire('key', 'me', LONG);
    await acquiring.opened;
    expect(await other.release('key', 'me')).toBe(true);
    await revoking.opened;
    freed.open();
    expect(await acquired).toBeTypeOf('bigint');
    const token = await store.tryAcquire('key 2', 'me', LONG);
    bound.open();
    await expectSoon(() => isRevoked).toBe(true);
    expect(await store.inspect('key 2')).toMatchObject({ owner: 'me', token });
  });
});
