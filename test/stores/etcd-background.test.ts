import { beforeEach, describe } from 'vitest';
import { hasEtcd } from '../support/etcd-server.mjs';
import { describeBackground } from '../leases/background.js';
import { EtcdScene } from './etcd-setup.js';

// Just below a second, which is what the servers count.
const TTL = 950;

describe.runIf(hasEtcd)('renewal in the background, in etcd', () => {
  const etcd = new EtcdScene();
  beforeEach(async () => {
    await etcd.cluster.wipe();
  });
  describeBackground(() => ({ endpoints: etcd.cluster.endpoints }), TTL);
});
