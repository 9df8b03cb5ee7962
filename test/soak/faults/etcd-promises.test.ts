import { expect, it, onTestFinished } from 'vitest';
import { ask, base64, ETCD_ADVICE, EtcdCluster, hasEtcd } from '../../support/etcd-server.mjs';
import { reportMissing } from '../../support/requirements.js';
import { endedEarly, type Agreed, type Asked } from './etcd-promises.mjs';

const KEY = 'stripelock/lease/key';
const BASE = 1000n;
const OLD = 7n;
const NEW = 8n;

type Part<T> = { -readonly [K in keyof T]?: T[K] };

const request = (thread: string, path: string, body: object, sent: number, answer?: object): Asked => {
  const messages = answer === undefined ? [] : [answer];
  return {
    thread,
    path,
    body: JSON.stringify(body),
    sent,
    answered: answer ? sent + 2 : Infinity,
    messages,
  };
};
const grant = (thread: string, lease: string, sent: number): Asked =>
  request(thread, 'lease/grant', { ID: lease, TTL: '1' }, sent, { ID: lease, TTL: '1' });
const bind = (thread: string, lease: string, revision: number, sent: number): Asked => {
  const value = base64(JSON.stringify({ base: String(BASE), owner: thread }));
  const body = { success: [{ requestPut: { key: base64(KEY), value, lease } }] };
  const header = { revision: String(revision), raft_term: '3' };
  return request(thread, 'kv/txn', body, sent, { header, succeeded: true });
};
const beat = (lease: string, sent: number, term: string): Asked =>
  request('a', 'lease/keepalive', { ID: lease }, sent, { header: { raft_term: term }, ID: lease, TTL: '1' });
const look = (sent: number, term: string): Asked =>
  request('a', 'kv/range', { key: base64(KEY) }, sent, { header: { raft_term: term } });

const hold = (client: string, revision: number, start: number, end: number): object => {
  const token = BASE + BigInt(revision);
  return { client, op: 'acquire', key: 'key', token, call: start - 5, return: start, start, end };
};
const put = (lease: string): Part<Agreed['entries'][number]> => ({
  term: 3,
  proposer: NEW,
  puts: [{ key: KEY, lease }],
});
const revoke = (lease: string): Part<Agreed['entries'][number]> => ({
  term: 3,
  proposer: OLD,
  revoked: lease,
  puts: [],
});

/** `a` was granted the key at 100, and renewed it at 1000; `b` was granted it at 1500. */
const asked = [grant('a', '1', 90), bind('a', '1', 11, 97), beat('1', 1000, '3'), look(1003, '3')];
const others = [grant('b', '2', 1490), bind('b', '2', 12, 1496)];
const log = [put('1'), revoke('1'), put('2')];

function early(
  requests: readonly Asked[],
  entries: readonly Part<Agreed['entries'][number]>[] = log,
  end = 1900,
): ReturnType<typeof endedEarly> {
  const holds = [hold('a', 11, 100, end), hold('b', 12, 1500, 1950)];
  const overlap = { holds, what: '' } as unknown as Parameters<typeof endedEarly>[0];
  return endedEarly(overlap, requests, { entries, leaderOf: () => NEW } as unknown as Agreed);
}

it('finds that etcd ended a lease before the time that it had promised', () => {
  const found = { lease: '1', left: 500, term: 3, proposer: OLD, leader: NEW };
  expect(early([...asked, ...others])).toEqual(found);
});

it('blames etcd for nothing beyond the TTL of the last keep-alive, counted from its request', () => {
  expect(early([...asked, ...others], log, 2000)).toBeDefined();
  expect(early([...asked, ...others], log, 2001)).toBeUndefined();
});

it('does not believe a keep-alive unless the servers agreed on something later in the same term', () => {
  const [granted, bound] = asked as [Asked, Asked];
  const before = [granted, bound, beat('1', 1000, '3'), ...others];
  expect(early(before)).toBeUndefined();
  expect(early([...before, look(999, '3')])).toBeUndefined();
  expect(early([...before, look(1003, '4')])).toBeUndefined();
});

it('does not blame etcd for what a holder asked for', () => {
  const revoking = (sent: number): Asked => request('b', 'lease/revoke', { ID: '1' }, sent);
  expect(early([...asked, ...others, revoking(1400)])).toBeUndefined();
  expect(early([...asked, ...others, revoking(1600)])).toBeDefined();
});

it('does not blame etcd where the key was taken while its lease lasted', () => {
  expect(early([...asked, ...others], [put('1'), put('2')])).toBeUndefined();
  expect(early([...asked, ...others], [put('1'), put('2'), revoke('1')])).toBeUndefined();
});

it('distinguishes a grant from an earlier refused attempt with the same etcd lease', () => {
  const attempt = bind('b', '2', 11, 1300);
  const refused = { ...attempt, messages: [{ header: { revision: '11' }, succeeded: false }] };
  const requests = [...asked, ...others, refused];
  expect(early(requests, [put('1'), put('2'), revoke('1'), put('2')])).toBeDefined();
  expect(early(requests, [put('1'), put('2'), put('2'), revoke('1')])).toBeUndefined();
  // Without an answer, it may never have arrived.
  const lost = { ...attempt, answered: Infinity, messages: [] };
  expect(early([...asked, ...others, lost], [put('1'), put('2'), revoke('1')])).toBeUndefined();
});

if (hasEtcd) {
  it('reads the agreed entries from a server’s log', async () => {
    const cluster = await EtcdCluster.start(1);
    onTestFinished(() => cluster.stop());
    const { port } = cluster;
    await ask(port, 'lease/grant', { ID: '123456789012345678', TTL: '60' });
    const requestPut = { key: base64(KEY), value: '', lease: '123456789012345678' };
    await ask(port, 'kv/txn', { success: [{ requestPut }] });
    await ask(port, 'kv/txn', { success: [{ requestTxn: { success: [{ requestPut }] } }] });
    await ask(port, 'lease/revoke', { ID: '123456789012345678' });
    // The next entries prove that the servers agreed on the earlier ones.
    await ask(port, 'kv/put', { key: base64('other'), value: '' });
    const { entries, leaderOf } = cluster.agreed();
    const bound = [{ key: KEY, lease: '123456789012345678' }];
    const last = entries.findLastIndex(({ revoked }) => revoked === '123456789012345678');
    expect(entries.slice(last - 2, last).map(({ puts }) => puts)).toEqual([bound, bound]);
    const { proposer, term } = entries[last]!;
    expect(leaderOf(term)).toBe(proposer);
    expect((await cluster.byId()).get(proposer)).toBe(cluster.nodes[0]);
  });
} else {
  reportMissing('The log of etcd', 'etcd', ETCD_ADVICE);
}
