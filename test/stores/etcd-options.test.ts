import { describe, expect, it } from 'vitest';
import { etcdLeaseStore } from 'stripelock/etcd';
import {
  answeredFailure,
  EtcdFailure,
  failureOf,
  messagesIn,
  verdictOn,
} from '../../unbundled/stores/etcd/gateway.js';

const TYPE = 'ERR_INVALID_ARG_TYPE';
const RANGE = 'ERR_OUT_OF_RANGE';
const endpoints = ['http://127.0.0.1:2379'];

describe('the options of the etcd store', () => {
  it.each([
    [undefined, TYPE],
    [5, TYPE],
    [{}, TYPE],
    [{ endpoints: endpoints[0] }, TYPE],
    [{ endpoints: [] }, RANGE],
    [{ endpoints: [5] }, TYPE],
    [{ endpoints: [''] }, RANGE],
    [{ endpoints: ['127.0.0.1:2379'] }, RANGE],
    [{ endpoints: ['ftp://127.0.0.1'] }, RANGE],
    [{ endpoints: ['http://user:secret@127.0.0.1:2379'] }, RANGE],
    [{ endpoints, credentials: 'me' }, TYPE],
    [{ endpoints, credentials: { username: 'me' } }, TYPE],
    [{ endpoints, credentials: { username: '', password: '' } }, RANGE],
    [{ endpoints, tls: true }, TYPE],
    [{ endpoints, prefix: 5 }, TYPE],
    [{ endpoints, timeout: -1 }, RANGE],
    [{ endpoints, timeout: '1' }, TYPE],
    [{ endpoints, drift: 2 }, RANGE],
  ])('%j is refused', (options, code) => {
    expect(() => etcdLeaseStore(options as never)).toThrow(expect.objectContaining({ code }) as Error);
  });

  it('are not shown where they may be secret', () => {
    for (const secret of [
      { endpoints: ['http://user:secret@127.0.0.1:2379'] },
      { endpoints: ['secret'] },
      { endpoints, credentials: { username: 'me', password: { secret: 1 } } },
    ]) {
      expect(() => etcdLeaseStore(secret as never)).toThrow(/^((?!secret).)*$/);
    }
  });

  it('can be cloned to another thread, which opens the store by them', async () => {
    const options = {
      endpoints,
      credentials: { username: 'me', password: 'secret' },
      tls: { ca: Buffer.from('ca'), servername: 'etcd' },
      prefix: 'app/',
      timeout: 50,
      drift: 0.01,
    };
    const store = etcdLeaseStore(options);
    const cloned = structuredClone(store.source!.options) as typeof options;
    expect({ ...cloned, tls: { ...cloned.tls, ca: Buffer.from(cloned.tls.ca) } }).toEqual({
      ...options,
      endpoints: ['http://127.0.0.1:2379/'],
    });
    const again = etcdLeaseStore(cloned);
    await Promise.all([store.close(), again.close()]);
  });
});

describe('a failure of etcd', () => {
  it.each([
    [14, 'etcdserver: no leader', 'elsewhere', false],
    [14, 'etcdserver: leader changed', 'elsewhere', true],
    [14, 'etcdserver: request timed out', 'elsewhere', true],
    [14, 'etcdserver: request timed out, possibly due to previous leader failure', 'elsewhere', true],
    [4, 'context deadline exceeded', 'elsewhere', true],
    [1, 'context canceled', 'elsewhere', true],
    [8, 'etcdserver: too many requests', 'elsewhere', false],
    [8, 'etcdserver: mvcc: database space exceeded', 'final', false],
    [16, 'etcdserver: invalid auth token', 'authenticate', false],
    [3, 'etcdserver: user name is empty', 'authenticate', false],
    [3, 'etcdserver: revision of auth store is old', 'authenticate', false],
    [3, 'etcdserver: authentication failed, invalid user ID or password', 'final', false],
    [7, 'etcdserver: permission denied', 'final', false],
    [5, 'etcdserver: requested lease not found', 'final', false],
    [9, 'etcdserver: lease already exists', 'final', false],
    [13, 'something broke', 'final', true],
    [2, 'who knows', 'final', true],
  ] as const)('with code %i, %s, is %s; may have been executed: %s', (code, message, verdict, uncertain) => {
    // The same in both versions of the gateway, and in a stream.
    const texts = [
      JSON.stringify({ error: message, message, code }),
      JSON.stringify({ code, message, details: [] }),
    ];
    for (const failure of texts.map((text) => failureOf(503, text))) {
      expect([verdictOn(failure), failure.uncertain, failure.message]).toEqual([verdict, uncertain, message]);
    }
    for (const name of ['grpc_code', 'code']) {
      const line = JSON.stringify({ error: { [name]: code, message, http_status: 'x' } });
      expect(() => messagesIn(`{"result":{}}\n${line}\n`)).toThrow(answeredFailure(message, code));
    }
  });

  it('of a proxy may pass, and one that is not an etcd is final', () => {
    for (const status of [502, 503, 504]) {
      const failure = failureOf(status, '<html>');
      expect([verdictOn(failure), failure.uncertain]).toEqual(['elsewhere', true]);
    }
    for (const text of ['404 page not found', '{}', 'null', '"text"', '{"message":5}']) {
      expect(verdictOn(failureOf(404, text)), text).toBe('final');
    }
    expect(() => messagesIn('<html>')).toThrow(EtcdFailure);
  });
});
