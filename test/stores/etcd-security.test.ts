import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { etcdLeaseStore, type EtcdLeaseStoreOptions } from 'stripelock/etcd';
import { ask, base64, EtcdCluster, hasEtcd } from '../support/etcd-server.mjs';
import { reportMissing } from '../support/requirements.js';
import { rejectionOf } from '../support/waiting.js';
import { PATIENT, type EtcdStore } from './etcd-setup.js';

const LONG = 60_000;
const CREDENTIALS = { username: 'worker', password: 'pass "word"' };

function open(options: EtcdLeaseStoreOptions): EtcdStore {
  const store = etcdLeaseStore({ timeout: 30_000, ...options });
  onTestFinished(() => store.close());
  return store;
}

describe.runIf(hasEtcd)('the etcd store, where servers know users,', () => {
  let cluster: EtcdCluster;
  const root = { name: 'root', password: 'root' };
  const enable = (): Promise<unknown> => ask(cluster.port, 'auth/enable', {});
  const disable = async (): Promise<void> => {
    const { token } = (await ask(cluster.port, 'auth/authenticate', root)) as { token: string };
    await ask(cluster.port, 'auth/disable', {}, token);
  };

  beforeAll(async () => {
    cluster = await EtcdCluster.start();
    const { port } = cluster;
    await ask(port, 'auth/user/add', root);
    await ask(port, 'auth/user/grant', { user: 'root', role: 'root' });
    await ask(port, 'auth/role/add', { name: 'leases' });
    const perm = { permType: 'READWRITE', key: base64('stripelock/'), range_end: base64('stripelock0') };
    await ask(port, 'auth/role/grant', { name: 'leases', perm });
    await ask(port, 'auth/user/add', { name: CREDENTIALS.username, password: CREDENTIALS.password });
    await ask(port, 'auth/user/grant', { user: CREDENTIALS.username, role: 'leases' });
    await enable();
  }, 120_000);
  afterAll(() => cluster.stop());

  it('works as elsewhere, as a user that may use only its keys', async () => {
    const store = open({ endpoints: cluster.endpoints, credentials: CREDENTIALS });
    const token = await store.tryAcquire('key', 'me', LONG);
    expect(await store.inspect('key')).toMatchObject({ owner: 'me', token });
    expect(await store.renew('key', 'me', LONG)).toBe(true);
    expect(await store.renew('key', 'me', LONG, 'info')).toBe(true);
    const other = open({ endpoints: cluster.endpoints, credentials: CREDENTIALS });
    const manager = new LeaseManager({ store: other, backoff: PATIENT });
    const waiting = manager.acquire('key', { timeout: 50_000 });
    // Woken by the watch, for which it needs a token, too.
    await new Promise((heard) => other.onRelease('key', () => heard(undefined)));
    expect(await store.release('key', 'me')).toBe(true);
    expect(await (await waiting).release()).toBe(true);
    await manager.close();
  });

  it('gets a new token when the servers do not know the old one any more', async () => {
    const store = open({ endpoints: cluster.endpoints, credentials: CREDENTIALS });
    await store.tryAcquire('key 2', 'me', LONG);
    await disable();
    await enable();
    expect(await store.renew('key 2', 'me', LONG)).toBe(true);
    expect(await store.release('key 2', 'me')).toBe(true);
  });

  it('keeps working when the servers start or stop requiring users', async () => {
    await disable();
    const store = open({ endpoints: cluster.endpoints, credentials: CREDENTIALS });
    await store.tryAcquire('key 3', 'me', LONG);
    await enable();
    expect(await store.renew('key 3', 'me', LONG)).toBe(true);
    await disable();
    expect(await store.release('key 3', 'me')).toBe(true);
    await enable();
  });

  it('fails at once without a user, with a wrong password, and for keys that it may not use', async () => {
    const { endpoints } = cluster;
    const started = performance.now();
    const wrong = { ...CREDENTIALS, password: 'another' };
    await expect(open({ endpoints }).tryAcquire('key', 'me', LONG)).rejects.toThrow(/user name is empty/);
    await expect(open({ endpoints, credentials: wrong }).inspect('key')).rejects.toThrow(
      /invalid user ID or pass/,
    );
    const elsewhere = open({ endpoints, credentials: CREDENTIALS, prefix: 'another/' });
    await expect(elsewhere.tryAcquire('key', 'me', LONG)).rejects.toThrow(/permission denied/);
    // Far below the time limit.
    expect(performance.now() - started).toBeLessThan(20_000);
  });

  it('fails a waiting acquisition at once', async () => {
    const { endpoints } = cluster;
    const wrong = { ...CREDENTIALS, password: 'another' };
    const stores = [
      open({ endpoints }),
      open({ endpoints, credentials: wrong }),
      open({ endpoints, credentials: CREDENTIALS, prefix: 'another/' }),
    ];
    for (const store of stores) {
      const manager = new LeaseManager({ store });
      const error = await rejectionOf(manager.acquire('key', { timeout: 60_000 }));
      expect(error).toMatchObject({ code: 'ERR_LEASE_STORE_DENIED' });
    }
  });
});

const hasOpenssl = spawnSync('openssl', ['version'], { stdio: 'ignore' }).status === 0;
if (hasEtcd && !hasOpenssl) {
  reportMissing('the etcd store over TLS', 'openssl', 'It makes the certificates that this test needs.');
}

describe.runIf(hasEtcd && hasOpenssl)('the etcd store over TLS', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'stripelock-etcd-tls-'));
  const certFile = path.join(folder, 'cert.pem');
  const keyFile = path.join(folder, 'key.pem');
  let cluster: EtcdCluster;

  beforeAll(async () => {
    const subject = ['-subj', '/CN=leases', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:etcd.example'];
    const made = spawnSync('openssl', [
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-days', '2', '-keyout', keyFile, '-out', certFile, ...subject],
    ]);
    expect(made.status, String(made.stderr)).toBe(0);
    // It signs itself, and clients must show it, too.
    const ofServer = ['--cert-file', certFile, '--key-file', keyFile];
    cluster = await EtcdCluster.start(1, [...ofServer, '--client-cert-auth', '--trusted-ca-file', certFile]);
  }, 120_000);
  afterAll(async () => {
    await cluster.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const pem = (file: string): string => readFileSync(file, 'utf8');
  const certificate = (): EtcdLeaseStoreOptions['tls'] & object => ({
    ca: pem(certFile),
    cert: readFileSync(certFile),
    key: pem(keyFile),
  });

  it('works as elsewhere with a client certificate, including watches', async () => {
    const endpoints = [`https://127.0.0.1:${cluster.securePort}`];
    const store = open({ endpoints, tls: certificate() });
    expect(await store.tryAcquire('key', 'me', LONG)).toBeTypeOf('bigint');
    await new Promise((heard) => store.onRelease('key', () => heard(undefined)));
    expect(await store.release('key', 'me')).toBe(true);
    const named = open({ endpoints, tls: { ...certificate(), servername: 'etcd.example' } });
    expect(await named.inspect('key')).toBeUndefined();
  });

  it('fails if it does not trust the server, the server not it, or the name is another', async () => {
    const endpoints = [`https://127.0.0.1:${cluster.securePort}`];
    const fails = async (tls: EtcdLeaseStoreOptions['tls']): Promise<void> => {
      const store = open({ endpoints, timeout: 500, ...(tls && { tls }) });
      await expect(store.tryAcquire('key', 'me', LONG)).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    };
    const { ca, cert, key } = certificate();
    await fails(undefined);
    await fails({ ca: ca! });
    await fails({ cert: cert!, key: key! });
    await fails({ ...certificate(), servername: 'other.example' });
  });
});
