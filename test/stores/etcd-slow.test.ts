import { setTimeout as delay } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { hasEtcd } from '../support/etcd-server.mjs';
import type { EtcdGateway, GatewayAnswer } from '../support/etcd-gateway.js';
import { EtcdScene, type EtcdStore, expectSoon, gate, GRANT, RANGE, REVOKE, TXN } from './etcd-setup.js';

const LONG = 60_000;
/** Milliseconds of a store that gives up: enough for what does not hang, on a busy machine. */
const HASTE = 3000;

describe.runIf(hasEtcd)('the etcd store, with servers that are slow,', () => {
  const etcd = new EtcdScene();
  let gateway: EtcdGateway;
  let store: EtcdStore;

  beforeEach(async () => {
    ({ gateway, store } = await etcd.beginBehindGateway({ timeout: HASTE }));
  });

  /** The store learns that an answer takes so many milliseconds. */
  const takesFor = async (milliseconds: number): Promise<void> => {
    gateway.rule = async ({ forward }) => {
      await delay(milliseconds);
      return forward();
    };
    await store.inspect('nothing');
    gateway.asked.length = 0;
  };

  /** The first requests at these paths are answered when all have come. Until then, all others must wait. */
  const togetherAt = (...paths: string[]): void => {
    const missing = new Set(paths);
    const all = gate();
    gateway.rule = async ({ path, forward }) => {
      missing.delete(path);
      if (missing.size === 0) all.open();
      await all.opened;
      return forward();
    };
  };

  /** Both are asked for at once; then one transaction takes the key, which is not refused for a lease that does not exist yet. */
  const expectGrantAfter = async (path: string): Promise<void> => {
    togetherAt(path, GRANT);
    expect(await store.tryAcquire('key', 'me', LONG)).toBeTypeOf('bigint');
    expect(new Set(gateway.asked.slice(0, 2))).toEqual(new Set([path, GRANT]));
    expect(gateway.asked.slice(2)).toEqual([TXN]);
  };

  it('asks for the base of tokens and for the etcd lease at once', async () => {
    await expectGrantAfter(TXN);
  });

  it('asks who has the key and for the etcd lease at once, where others wait for the key', async () => {
    await store.tryAcquire('first', 'me', LONG);
    store.onRelease('key', () => undefined);
    await takesFor(100);
    await expectGrantAfter(RANGE);
  });

  it('keeps the etcd lease for later if another owner has the key', async () => {
    await store.tryAcquire('key', 'another', LONG);
    store.onRelease('key', () => undefined);
    for (let i = 0; i < 3; i++) {
      await takesFor(100);
      expect(await store.tryAcquire('key', 'me', LONG)).toBeUndefined();
      if (i > 0) expect(gateway.asked).not.toContain(GRANT);
      expect(gateway.asked).not.toContain(TXN);
    }
  });

  it('does not look first if two answers would take almost the whole time of the lease', async () => {
    await store.tryAcquire('first', 'me', LONG);
    store.onRelease('key', () => undefined);
    await takesFor(400);
    // On a busy machine it may be granted too late.
    await store.tryAcquire('key', 'me', 1000).catch(() => undefined);
    expect(gateway.asked).toContain(TXN);
    expect(gateway.asked).not.toContain(RANGE);
  });

  it('takes a key in one transaction while what its owner was granted without an answer is withdrawn', async () => {
    await store.tryAcquire('first', 'me', LONG);
    store.onRelease('key', () => undefined);
    const [found, revoked, granted] = [gate(), gate(), gate()];
    /** Comes to the server between the question who has the key and the transaction. */
    const revoke = async (forward: () => Promise<GatewayAnswer>): Promise<GatewayAnswer> => {
      await found.opened;
      const answer = await forward();
      revoked.open();
      return answer;
    };
    gateway.rule = async ({ path, forward }) => {
      if (path === REVOKE) return revoke(forward);
      const answer = await forward();
      // It has taken the key, and there is no answer in time.
      return answer.text.includes('"succeeded":true') ? new Promise(() => undefined) : answer;
    };
    await expect(store.tryAcquire('key', 'me', LONG)).rejects.toThrow(/has not answered/);
    expect(await etcd.entry('key')).toBeDefined();
    gateway.asked.length = 0;
    gateway.rule = async ({ path, forward }) => {
      if (path === REVOKE) return revoke(forward);
      if (path === TXN) await Promise.all([revoked.opened, granted.opened]);
      const answer = await forward();
      if (path === RANGE) found.open();
      if (path === GRANT) granted.open();
      return answer;
    };
    const token = await store.tryAcquire('key', 'me', LONG);
    expect(gateway.asked.filter((path) => path === TXN)).toHaveLength(1);
    await expectSoon(() => store.inspect('key')).toMatchObject({ owner: 'me', token });
  });
});
