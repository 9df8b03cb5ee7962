import { describe } from 'vitest';
import { delayed, describePairs, type Scene, slow } from '../leases/lease-pairs.js';
import { hasEtcd } from '../support/etcd-server.mjs';
import { EtcdScene } from './etcd-setup.js';

describe.runIf(hasEtcd)('over etcd', () => {
  const etcd = new EtcdScene();
  const start = (): Scene => {
    etcd.begin();
    return { clock: undefined, open: () => slow(etcd.store(), delayed) };
  };
  // It counts whole seconds.
  describePairs(start, { rounding: 1000 });
});
