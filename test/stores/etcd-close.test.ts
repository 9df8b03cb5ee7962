import { describe, expect, it } from 'vitest';
import { LeaseManager } from 'stripelock';
import { base64, hasEtcd } from '../support/etcd-server.mjs';
import { rejectionOf, until } from '../support/waiting.js';
import type { GatewayAnswer, Rule } from '../support/etcd-gateway.js';
import { EtcdScene, type EtcdStore, expectSoon, TXN } from './etcd-setup.js';

const COUNT = 2000;
const MANY = 6000;
/** Acquisitions at once: more would wait for one another until some of them are late. */
const AT_ONCE = 250;
/** Milliseconds: far longer than the test takes, so no lease ends by itself. */
const TTL = 600_000;

describe.runIf(hasEtcd)('close over etcd', () => {
  const etcd = new EtcdScene();

  /** How many of the store's keys are held. */
  async function held(): Promise<number> {
    const [key, range_end] = ['lease/', 'lease0'].map((name) => base64(`${etcd.prefix}${name}`));
    const { count = '0' } = (await etcd.ask('kv/range', { key, range_end, count_only: true })) as {
      count?: string;
    };
    return Number(count);
  }

  async function closeWith(store: EtcdStore, begin: () => void, count = COUNT): Promise<void> {
    const before = new Set(await etcd.leases());
    const manager = new LeaseManager({ store, ttl: TTL, backoff: { initial: 5, max: 50 } });
    for (let i = 0; i < count; i += AT_ONCE) {
      const keys = Array.from({ length: AT_ONCE }, (_, j) => `key ${i + j}`);
      await Promise.all(keys.map((key) => manager.acquire(key, { timeout: 50_000 })));
    }
    expect(await held()).toBe(count);
    begin();
    await manager.close();
    expect(await held()).toBe(0);
    await store.close();
    await expectSoon(async () => (await etcd.leases()).filter((id) => !before.has(id))).toEqual([]);
  }

  it('leaves none of thousands of leases, and none of the etcd leases that they were bound to', async () => {
    etcd.begin();
    await closeWith(etcd.store(), () => undefined, MANY);
  }, 120_000);

  it.each<[what: string, first: (forward: () => Promise<GatewayAnswer>) => ReturnType<Rule>]>([
    [
      'are refused',
      () => Promise.resolve({ status: 429, text: '{"code":8,"message":"mvcc: database space exceeded"}' }),
    ],
    ['get no answer', (forward) => forward().then(() => 'cut')],
  ])(
    'leaves none of thousands of leases although the first releases %s',
    async (_what, first) => {
      const { gateway, store } = await etcd.beginBehindGateway();
      let failures = 0;
      await closeWith(store, () => {
        gateway.rule = ({ path, forward }) => (path === TXN && failures++ < 200 ? first(forward) : forward());
      });
      expect(failures).toBeGreaterThan(200);
    },
    120_000,
  );

  it.each<[operation: string, ask: (store: EtcdStore) => Promise<unknown>]>([
    ['a renewal', (store) => store.renew('key', 'me', TTL)],
    ['a renewal of several keys', (store) => store.renewAll(['key', 'other'], 'me', TTL)],
    ['a release', (store) => store.release('key', 'me')],
    ['an attempt', (store) => store.tryAcquire('other', 'me', TTL)],
    ['an inspection', (store) => store.inspect('key')],
  ])('says of %s under way that the store was closed', async (_operation, ask) => {
    const { gateway, store } = await etcd.beginBehindGateway();
    await store.tryAcquire('key', 'me', TTL);
    let asked = 0;
    gateway.rule = () => {
      asked++;
      return new Promise(() => undefined);
    };
    const error = rejectionOf(ask(store));
    await until(() => asked > 0, 'the request is under way');
    await store.close();
    expect(await error).toMatchObject({
      code: 'ERR_LEASE_STORE',
      message: 'the lease store over etcd was closed before etcd answered',
    });
  });
});
