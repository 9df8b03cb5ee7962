import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { etcdLeaseStore } from 'stripelock/etcd';
import { leaseStoreContract } from 'stripelock/testing';
import { ETCD_ADVICE, EtcdCluster, hasEtcd } from '../support/etcd-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { LATE } from './etcd-setup.js';

if (!hasEtcd) {
  reportMissing('the etcd store', 'etcd', ETCD_ADVICE);
} else {
  let cluster: EtcdCluster;
  beforeAll(async () => {
    cluster = await EtcdCluster.start();
  }, 120_000);
  afterAll(() => cluster.stop());

  vi.setConfig({ maxConcurrency: 20 });
  // Tests run side by side on one server, each under a separate prefix: most of their time they wait for seconds to pass.
  const framework = { describe: describe.concurrent, it, expect };
  let stores = 0;
  leaseStoreContract(framework, 'etcd store, three clients', () => {
    const prefix = `test ${++stores}/`;
    // A long time limit, because one sentence acquires a key 20 times at once, on a busy machine.
    const options = { endpoints: cluster.endpoints, prefix, timeout: 30_000 };
    const [store, ...peers] = [1, 2, 3].map(() => etcdLeaseStore(options));
    return { store: store!, peers, keepsInfo: true, ttl: 900, late: LATE };
  });
}
