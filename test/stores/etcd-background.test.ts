import { beforeEach, describe } from 'vitest';
import { hasEtcd } from '../support/etcd-server.mjs';
import { describeBackground } from '../leases/background.js';
import { EtcdScene } from './etcd-setup.js';

// Just below two seconds, as the servers count whole ones. Within one, the servers and the thread that renews did not always
// get their turn beside tests that keep both processors busy.
const TTL = 1950;

describe.runIf(hasEtcd)('renewal in the background, in etcd', () => {
  const etcd = new EtcdScene();
  beforeEach(async () => {
    await etcd.cluster.wipe();
  });
  describeBackground(() => ({ endpoints: etcd.cluster.endpoints }), TTL);
});
