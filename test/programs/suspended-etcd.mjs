// Takes two keys of etcd in turn, and pretends that the machine was suspended between them: see test/support/shifted-clock.c.
// Arguments: the file with the shift, and the URL of a server. Prints whether the second key is bound to the etcd lease of
// the first one, of which the suspension used up a part.
import { openSync, writeSync } from 'node:fs';
import { LeaseManager } from 'stripelock';
import { etcdLeaseStore } from 'stripelock/etcd';
import { ask, base64 } from '../support/etcd-server.mjs';

const [, , shift, endpoint] = process.argv;
const file = openSync(shift, 'r+');
const bytes = Buffer.alloc(8);
bytes.writeBigInt64LE(30_000n);

const MINUTE = 60_000;
const prefix = 'suspended/';
const store = etcdLeaseStore({ endpoints: [endpoint], prefix, timeout: 30_000 });
const manager = new LeaseManager({ store, ttl: MINUTE });

async function etcdLeaseOf(key) {
  const { kvs } = await ask(new URL(endpoint).port, 'kv/range', { key: base64(`${prefix}lease/${key}`) });
  return kvs[0].lease;
}

const first = await manager.acquire('first');
const parked = await etcdLeaseOf('first');
await first.release();
writeSync(file, bytes, 0, 8, 0);
await manager.acquire('second');
console.log(JSON.stringify({ usedAgain: (await etcdLeaseOf('second')) === parked }));
await manager.close();
await store.close();
