// Leases over etcd, and the lock of etcd3. Each library is loaded only in processes that measure it.

import http from 'node:http';
import { EtcdCluster, hasEtcd } from '../../../test/support/etcd-server.mjs';
import { loadStore } from '../../support/package.mjs';
import { lack, placeOf } from '../../support/servers.mjs';
import { alone, managed, subject, TTL } from './clients.mjs';

/**
 * @typedef {import('./clients.mjs').Client} Client
 * @typedef {import('./clients.mjs').Make} Make
 * @typedef {import('../index.mjs').Subject} Subject
 */

/** @type {import('../../support/servers.mjs').Server} */
export const etcdServer = {
  name: 'etcd',
  missing: hasEtcd ? undefined : 'etcd on the PATH',
  async start() {
    // As by default: writes wait for the disk.
    const cluster = await EtcdCluster.start(1, ['--unsafe-no-fsync=false']);
    return { place: cluster.endpoints[0], stop: () => cluster.stop() };
  },
};

const needsEtcd = () => lack(etcdServer);

/**
 * @param {string} name
 * @param {Make} make
 */
const etcdStore = (name, make) =>
  subject(name, ['stripelock'], needsEtcd, async () => {
    const { etcdLeaseStore } = await loadStore('etcd');
    return make(etcdLeaseStore({ endpoints: [placeOf('etcd')] }), () => undefined);
  });

/**
 * One request to the JSON gateway.
 *
 * @param {http.Agent} agent
 * @param {string} path
 * @param {object} body
 * @returns {Promise<void>}
 */
function post(agent, path, body) {
  const text = JSON.stringify(body);
  const headers = { 'content-type': 'application/json', 'content-length': text.length };
  return new Promise((resolve, reject) => {
    const options = { method: 'POST', agent, headers };
    const request = http.request(`${placeOf('etcd')}/v3/${path}`, options, (response) => {
      /** @type {string[]} */
      const parts = [];
      response.setEncoding('utf8').on('data', (part) => parts.push(part));
      response.on('error', reject).on('end', () => {
        const { error } = JSON.parse(parts.join(''));
        if (error === undefined) resolve();
        else reject(new Error(error));
      });
    });
    request.on('error', reject).end(text);
  });
}

const base64 = (/** @type {unknown} */ text) => Buffer.from(String(text)).toString('base64');
const VALUE = base64('value');

/**
 * A key is written and deleted, by nobody in particular.
 *
 * @param {string} name
 * @param {(key: string) => [path: string, body: object]} put
 * @param {(key: string) => [path: string, body: object]} remove
 * @returns {Subject}
 */
const twoRequests = (name, put, remove) => ({
  ...subject(name, [], needsEtcd, () => {
    const agent = new http.Agent({ keepAlive: true });
    return {
      async acquire(name) {
        const key = base64(name);
        await post(agent, ...put(key));
        return key;
      },
      release: (key) => post(agent, ...remove(key)),
      close: () => agent.destroy(),
    };
  }),
  excludes: false,
});

const putAndDelete = twoRequests(
  'floor: put and delete',
  (key) => ['kv/put', { key, value: VALUE }],
  (key) => ['kv/deleterange', { key }],
);

/** What a lock by any means of etcd must do at least: write if nobody has, and delete only what it has written. */
const transactions = twoRequests(
  'floor: put if absent, delete if unchanged',
  (key) => [
    'kv/txn',
    {
      compare: [{ key, target: 'CREATE', create_revision: '0' }],
      success: [{ requestPut: { key, value: VALUE } }],
    },
  ],
  (key) => [
    'kv/txn',
    { compare: [{ key, target: 'VALUE', value: VALUE }], success: [{ requestDeleteRange: { key } }] },
  ],
);

/** @type {Subject} */
const etcd3 = subject('etcd3', ['etcd3'], needsEtcd, async () => {
  const { Etcd3 } = await import('etcd3');
  const client = new Etcd3({ hosts: placeOf('etcd') });
  return {
    acquire: async (key) => {
      // It does not wait.
      for (;;) {
        const lock = client.lock(String(key)).ttl(TTL / 1000);
        const held = await lock.acquire().catch((/** @type {Error} */ error) => {
          if (error.constructor.name !== 'EtcdLockFailedError') throw error;
        });
        if (held !== undefined) return held;
      }
    },
    release: (held) => held.release(),
    close: () => client.close(),
  };
});

export const ETCD_MANAGER = 'stripelock over etcd';
export const ETCD3 = etcd3.name;
export const PUT_AND_DELETE = putAndDelete.name;

export const etcdSubjects = {
  putAndDelete,
  transactions,
  etcd: etcdStore(ETCD_MANAGER, managed),
  etcdAlone: etcdStore('stripelock over etcd, store alone', alone),
  etcd3,
};
