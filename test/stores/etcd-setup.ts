import { afterAll, beforeAll, expect, onTestFinished } from 'vitest';
import { etcdLeaseStore, type EtcdLeaseStoreOptions } from 'stripelock/etcd';
import { EtcdGateway, type Passing } from '../support/etcd-gateway.js';
import { ask, base64, EtcdCluster, hasEtcd } from '../support/etcd-server.mjs';

export type EtcdStore = ReturnType<typeof etcdLeaseStore>;

/** Milliseconds by which the servers may end a lease too late: they count whole seconds, and look twice a second. */
export const LATE = 2500;
/** Polls only when the test says so. */
export const PATIENT = { initial: 20_000, max: 20_000, jitter: 0 };

/** The requests to a gateway, as its `asked` lists them. */
export const TXN = 'kv/txn';
export const RANGE = 'kv/range';
export const GRANT = 'lease/grant';
export const BEAT = 'lease/keepalive';
export const REVOKE = 'lease/revoke';

/** A key as the gateway shows it. */
export interface Entry {
  key: string;
  value: string;
  lease?: string;
  mod_revision: string;
}

/** As `expect.poll`, for as long as a busy machine may take for what should take none. */
export const expectSoon = <T>(read: () => T): ReturnType<typeof expect.poll<T>> =>
  expect.poll(read, { timeout: 20_000 });

/** A promise, and what resolves it. */
export function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}

/** The answer to a keep-alive, from a server that does not know this etcd lease. */
export const withoutLease = (id: string, text: string): string =>
  text.replace(new RegExp(`"ID":"${id}","TTL":"\\d+"`), `"ID":"${id}"`);

/** Whether the request may grant a key. */
export const isAcquisition = ({ path, body }: Passing): boolean =>
  path === TXN && body.includes('requestPut') && body.includes('requestDeleteRange');

/** Renews the leases of these owners for `key` and `key 2` in one request. */
export function renewEach(store: EtcdStore, owners: readonly string[]): Promise<unknown> {
  const renewals = owners.map((owner, i) => ({ key: ['key', 'key 2'][i], owner, ttl: 60_000 }));
  return (store as unknown as { renewEach(of: object): Promise<unknown> }).renewEach(renewals);
}

let prefixes = 0;

/** Shared by the tests of a file: one cluster, and for each test a separate prefix. */
export class EtcdScene {
  cluster!: EtcdCluster;
  prefix = '';
  readonly #servers: number;

  /** Registers the hooks. To be called within `describe`, or in a file. */
  constructor(servers = 1) {
    this.#servers = servers;
    beforeAll(async () => {
      if (hasEtcd) this.cluster = await EtcdCluster.start(this.#servers);
    }, 120_000);
    afterAll(() => hasEtcd && this.cluster.stop());
  }

  /** Another prefix, where nothing is held. */
  begin(): void {
    this.prefix = `test ${++prefixes}/`;
  }

  /** A store. Ends with the test. */
  store(options: Partial<EtcdLeaseStoreOptions> = {}): EtcdStore {
    // A test that is not about the time limit must not fail by it on a busy machine.
    const { endpoints } = this.cluster;
    const store = etcdLeaseStore({ endpoints, prefix: this.prefix, timeout: 30_000, ...options });
    onTestFinished(() => store.close());
    return store;
  }

  /** Another prefix, and a store there that asks through a gateway. Both end with the test. */
  async beginBehindGateway(
    options: Partial<EtcdLeaseStoreOptions> = {},
  ): Promise<{ gateway: EtcdGateway; store: EtcdStore }> {
    this.begin();
    return this.behindGateway(options);
  }

  /** A store that asks through a gateway. Both end with the test. */
  async behindGateway(
    options: Partial<EtcdLeaseStoreOptions> = {},
  ): Promise<{ gateway: EtcdGateway; store: EtcdStore }> {
    const gateway = await EtcdGateway.before(this.cluster.port);
    onTestFinished(() => gateway.close());
    return { gateway, store: this.store({ endpoints: [gateway.endpoint], ...options }) };
  }

  /** The same, with a store that has already read the base of its tokens. */
  async beginWithTokens(): Promise<{ gateway: EtcdGateway; store: EtcdStore }> {
    const scene = await this.beginBehindGateway();
    await scene.store.tryAcquire('first', 'me', 5000);
    await scene.store.release('first', 'me');
    scene.gateway.asked.length = 0;
    return scene;
  }

  ask(path: string, body: object): Promise<{ [name: string]: never }> {
    return ask(this.cluster.port, path, body) as Promise<{ [name: string]: never }>;
  }

  /** The value at the store's key. */
  async entry(key: string): Promise<Entry | undefined> {
    const { kvs = [] } = (await this.ask('kv/range', { key: base64(`${this.prefix}lease/${key}`) })) as {
      kvs?: Entry[];
    };
    return kvs[0];
  }

  /** The ids of all etcd leases in the cluster. */
  async leases(): Promise<string[]> {
    const { leases = [] } = (await this.ask('lease/leases', {})) as { leases?: { ID: string }[] };
    return leases.map(({ ID }) => ID);
  }
}
