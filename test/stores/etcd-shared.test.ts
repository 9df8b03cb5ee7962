import { beforeEach, describe, expect, it } from 'vitest';
import { revokeLease } from 'stripelock';
import { base64, hasEtcd } from '../support/etcd-server.mjs';
import type { EtcdGateway, GatewayAnswer, Passing } from '../support/etcd-gateway.js';
import {
  BEAT,
  EtcdScene,
  type EtcdStore,
  expectSoon,
  gate,
  GRANT,
  RANGE,
  renewEach,
  REVOKE,
  TXN,
  withoutLease,
} from './etcd-setup.js';
import { expectNoGroup, expectPartialReleases } from './readers.js';

const LONG = 60_000;
/** Milliseconds of a store that gives up soon: enough for what does not hang, on a busy machine. */
const HASTE = 1500;
/** The owner in the value of a group that `r1` formed. The name of the group also has the token. */
const OWNER = 'stripelock:readers:r1';

/** Whether the request is a transaction that may write. */
const isWrite = ({ path, body }: Passing): boolean => path === TXN && body.includes('compare');

describe.runIf(hasEtcd)('shared mode in the etcd store', () => {
  const etcd = new EtcdScene();
  let gateway: EtcdGateway;
  /** Behind the gateway. */
  let store: EtcdStore;
  /** Not behind the gateway. */
  let other: EtcdStore;
  /** The transactions and reads behind the gateway that were answered after the held one came. */
  let afterHeld = 0;
  let hasties = 0;

  beforeEach(async () => {
    ({ gateway, store } = await etcd.beginBehindGateway());
    other = etcd.store();
    // Both have read the base of tokens.
    for (const one of [store, other]) await one.tryAcquire('first', 'r', LONG);
    gateway.asked.length = 0;
  });

  async function valueOf(key = 'key'): Promise<{ owner: string; readers?: string } | undefined> {
    const entry = await etcd.entry(key);
    return entry && (JSON.parse(Buffer.from(entry.value, 'base64').toString()) as { owner: string });
  }
  const readers = async (): Promise<string | undefined> => (await valueOf())?.readers;
  const groupOf = async (): Promise<string> => (await other.inspect('key'))!.owner;
  const leaseOf = async (): Promise<string | undefined> => (await etcd.entry('key'))?.lease;

  async function putOffKey(): Promise<{ value: string; lease: string } | undefined> {
    const key = base64(`${etcd.prefix}put-off/key`);
    const { kvs = [] } = await etcd.ask('kv/range', { key });
    return kvs[0];
  }

  /** The store whose next write is held. Resolves when the write has come, to what sends it to the server. */
  async function holdWrite(send: (hasty: EtcdStore) => Promise<unknown>): Promise<Passing> {
    const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
    // It has read the base of tokens.
    await hasty.tryAcquireShared(`hasty ${++hasties}`, 'r', LONG);
    let held: Passing | undefined;
    afterHeld = 0;
    gateway.rule = async (request) => {
      if (held === undefined && isWrite(request)) {
        held = request;
        return new Promise(() => undefined);
      }
      const answer = await request.forward();
      if (held !== undefined && request.path === TXN) afterHeld++;
      return answer;
    };
    await expect(send(hasty)).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    return held!;
  }

  /** The answers to the next `count` writes are lost after the server has executed them. */
  function loseAnswers(count = 1): void {
    let left = count;
    gateway.rule = async (request) => {
      if (!isWrite(request) || left-- <= 0) return request.forward();
      await request.forward();
      return 'cut';
    };
  }

  it('reports of a release whether other readers still hold the key', async () => {
    await expectPartialReleases(store);
  });

  it('takes a read and a transaction to join or leave; joining first extends the etcd lease', async () => {
    await store.tryAcquireShared('key', 'r1', LONG);
    expect(gateway.asked.splice(0)).toEqual([TXN, GRANT, TXN]);
    await store.tryAcquireShared('key', 'r2', LONG);
    expect(gateway.asked.splice(0)).toEqual([TXN, BEAT, TXN]);
    await store.renew('key', await groupOf(), LONG);
    expect(gateway.asked.splice(0)).toEqual([TXN, BEAT, TXN]);
    await store.putOffReaders('key', LONG);
    expect(gateway.asked.splice(0)).toEqual([RANGE, TXN, GRANT, TXN]);
    await store.putOffReaders('key', LONG);
    expect(gateway.asked.splice(0)).toEqual([RANGE, TXN, BEAT]);
    expect(await store.tryAcquireShared('key', 'r3', LONG)).toBeUndefined();
    expect(gateway.asked.splice(0)).toEqual([TXN]);
    for (const reader of ['r1', 'r2']) await store.releaseShared('key', reader);
    expect(gateway.asked.splice(0)).toEqual([TXN, TXN, TXN, TXN]);
  });

  it('reuses the etcd lease of a group that has ended', async () => {
    for (let i = 0; i < 3; i++) {
      await store.tryAcquireShared('key', `r${i}`, 4000);
      await store.releaseShared('key', `r${i}`);
    }
    expect(gateway.asked.filter((path) => path === GRANT).length).toBe(1);
    expect(gateway.asked).not.toContain(REVOKE);
  });

  it('does not reuse the etcd lease of a group whose request was sent twice', async () => {
    let txns = 0;
    // The first is a read. The first copy of the second may arrive later, and form a group again.
    gateway.rule = ({ path, forward }) => (path === TXN && ++txns === 2 ? Promise.resolve('cut') : forward());
    await store.tryAcquireShared('key', 'r1', 4000);
    const lease = await leaseOf();
    await store.releaseShared('key', 'r1');
    await store.tryAcquire('other', 'me', 4000);
    expect(txns).toBeGreaterThan(2);
    expect((await etcd.entry('other'))!.lease).not.toBe(lease);
  });

  it('keeps the readers in the place of the info, and removes the key with the last one', async () => {
    await store.tryAcquireShared('key', 'r1', LONG);
    await other.tryAcquireShared('key', 'r2', LONG);
    expect(await valueOf()).toMatchObject({ owner: OWNER, readers: 'r1,r2,' });
    const lease = await leaseOf();
    await other.releaseShared('key', 'r1');
    expect(await valueOf()).toMatchObject({ owner: OWNER, readers: 'r2,' });
    expect(await leaseOf()).toBe(lease);
    await other.releaseShared('key', 'r2');
    expect(await etcd.entry('key')).toBeUndefined();
    // The other store did not create the etcd lease, so it does not keep it.
    await expectSoon(() => etcd.leases()).not.toContain(lease);
  });

  it('lets requests for one key share transactions', async () => {
    const ids = Array.from({ length: 50 }, (_, i) => `r${i + 1}`);
    const grants = await Promise.all(ids.map((id) => store.tryAcquireShared('key', id, LONG)));
    for (const grant of grants) expect(grant).toEqual(grants[0]);
    expect(gateway.asked.splice(0)).toEqual([TXN, GRANT, TXN]);
    const { group } = grants[0]!;
    const renewed = await Promise.all(ids.map(() => store.renew('key', group, LONG)));
    expect(renewed).toEqual(ids.map(() => true));
    expect(gateway.asked.splice(0)).toEqual([TXN, BEAT, TXN]);
    const left = await Promise.all(ids.map((id) => store.releaseShared('key', id)));
    expect(left).toEqual(ids.map(() => true));
    expect(gateway.asked.splice(0)).toEqual([TXN, TXN]);
    expect(await etcd.entry('key')).toBeUndefined();
  });

  it('is one group if readers of several stores come at the same moment', async () => {
    const stores = [store, other, etcd.store()];
    for (let round = 0; round < 5; round++) {
      const ids = Array.from({ length: 12 }, (_, i) => `r${round}:${i}`);
      const grants = await Promise.all(ids.map((id, i) => stores[i % 3]!.tryAcquireShared('key', id, LONG)));
      for (const grant of grants) expect(grant).toEqual(grants[0]);
      const left = await Promise.all(ids.map((id, i) => stores[i % 3]!.releaseShared('key', id)));
      expect(left).toEqual(ids.map(() => true));
      expect(await etcd.entry('key')).toBeUndefined();
    }
  });

  it('moves the key to a longer etcd lease for a reader with a longer TTL, and never to a shorter one', async () => {
    await store.tryAcquireShared('key', 'r1', 5000);
    const first = await leaseOf();
    await other.tryAcquireShared('key', 'r2', LONG);
    const second = await leaseOf();
    expect(second).not.toBe(first);
    await expectSoon(() => etcd.leases()).not.toContain(first);
    await store.tryAcquireShared('key', 'r3', 5000);
    expect(await store.renew('key', await groupOf(), 5000)).toBe(true);
    expect(await leaseOf()).toBe(second);
    expect((await store.inspect('key'))!.remaining).toBeGreaterThan(LONG / 2);
  });

  it('sends a transaction for a key only after its etcd lease exists', async () => {
    const granting = gate();
    const order: string[] = [];
    gateway.rule = async (request) => {
      if (isWrite(request)) order.push('binding');
      if (request.path !== GRANT) return request.forward();
      await granting.opened;
      const answer = await request.forward();
      order.push('granted');
      return answer;
    };
    const joining = store.tryAcquireShared('key', 'r1', LONG);
    await expectSoon(() => gateway.asked).toContain(GRANT);
    expect(order).toEqual([]);
    granting.open();
    await joining;
    await store.tryAcquireShared('key', 'r2', 2 * LONG);
    await store.putOffReaders('key', LONG);
    expect(order).toEqual(['granted', 'binding', 'granted', 'binding', 'granted', 'binding']);
  });

  it('puts readers off by a key with an etcd lease, which outlasts the group, and a writer removes', async () => {
    await store.tryAcquireShared('key', 'r1', LONG);
    expect(await putOffKey()).toBeUndefined();
    await store.putOffReaders('key', 30_000);
    const first = (await putOffKey())!;
    await other.putOffReaders('key', 10_000);
    expect((await putOffKey())!.lease).toBe(first.lease);
    await other.putOffReaders('key', LONG);
    expect((await putOffKey())!.lease).not.toBe(first.lease);
    await store.releaseShared('key', 'r1');
    expect(await store.tryAcquireShared('key', 'r2', LONG)).toBeUndefined();
    expect(await putOffKey()).toBeDefined();
    await other.tryAcquire('key', 'writer', LONG);
    expect(await putOffKey()).toBeUndefined();
    await other.release('key', 'writer');
    const next = await store.tryAcquireShared('key', 'r2', LONG);
    expect(await other.tryAcquireShared('key', 'r3', LONG)).toEqual(next);
    expect(await other.putOffReaders('key', 30_000)).toBe(true);
    expect(await other.tryAcquireShared('key', 'r4', LONG)).toBeUndefined();
  });

  it.each([
    ['and the key is free', true],
    ['and a group still holds the key', false],
  ])('notifies waiters when readers are no longer put off, %s', async (_what, isFree) => {
    let woken = 0;
    other.onRelease('key', () => woken++);
    await expectSoon(() => woken).toBeGreaterThan(0);
    await store.tryAcquireShared('key', 'r1', LONG);
    const before = woken;
    await store.putOffReaders('key', 1000);
    if (isFree) await store.releaseShared('key', 'r1');
    // The release is reported, too.
    await expectSoon(() => woken).toBe(before + (isFree ? 2 : 1));
    expect(await other.tryAcquireShared('key', 'r2', LONG)).toBeDefined();
  });

  it('refuses a reader if readers are put off between its read and its transaction', async () => {
    await other.tryAcquireShared('key', 'r1', LONG);
    let count = 0;
    gateway.rule = async (request) => {
      if (isWrite(request) && count++ === 0) await other.putOffReaders('key', LONG);
      return request.forward();
    };
    expect(await store.tryAcquireShared('key', 'r2', LONG)).toBeUndefined();
    expect(await readers()).toBe('r1,');
  });

  it('refuses a reader if a group has come and gone between its read and its transaction, and puts off readers', async () => {
    let count = 0;
    gateway.rule = async (request) => {
      if (isWrite(request) && count++ === 0) {
        await other.tryAcquireShared('key', 'r1', LONG);
        await other.putOffReaders('key', LONG);
        await other.releaseShared('key', 'r1');
      }
      return request.forward();
    };
    expect(await store.tryAcquireShared('key', 'r2', LONG)).toBeUndefined();
    expect(await etcd.entry('key')).toBeUndefined();
  });

  it('gives a group that is formed late another name', async () => {
    const form = await holdWrite((hasty) => hasty.tryAcquireShared('key', 'r1', LONG));
    // The reader's release comes before the transaction is executed.
    await expectSoon(() => afterHeld).toBeGreaterThan(0);
    const { group } = (await other.tryAcquireShared('key', 'r1', LONG))!;
    await revokeLease(other, 'key');
    await form.forward();
    expect(await readers()).toBe('r1,');
    expect(await groupOf()).not.toBe(group);
    expect(await other.renew('key', group, LONG)).toBe(false);
    expect(await other.renew('key', await groupOf(), LONG)).toBe(true);
  });

  it('is no group if another owner has the key, whatever its info', async () => {
    await expectNoGroup(store, 'a,');
  });

  it('notifies a waiter only of the release of the last reader', async () => {
    let woken = 0;
    other.onRelease('key', () => woken++);
    await expectSoon(() => woken).toBeGreaterThan(0);
    for (const id of ['r1', 'r2']) await store.tryAcquireShared('key', id, LONG);
    await store.putOffReaders('key', LONG);
    await store.releaseShared('key', 'r1');
    // The watch reports events in order. So when it reports this event, it has reported all earlier events of the key.
    let last = 0;
    other.onRelease('last', () => last++);
    await store.tryAcquire('last', 'writer', LONG);
    const [before, lastBefore] = [woken, last];
    await store.release('last', 'writer');
    await expectSoon(() => last).toBeGreaterThan(lastBefore);
    expect(woken).toBe(before);
    await store.releaseShared('key', 'r2');
    await expectSoon(() => woken).toBeGreaterThan(before);
  });

  it('extends again if a leader that was replaced has extended the etcd lease', async () => {
    await store.tryAcquireShared('key', 'r1', LONG);
    let beats = 0;
    gateway.rule = async ({ path, forward }) => {
      const { status, text } = await forward();
      const isStale = path === BEAT && beats++ === 0;
      return { status, text: isStale ? text.replace(/"raft_term":"\d+"/g, '"raft_term":"1"') : text };
    };
    gateway.asked.length = 0;
    expect(await store.renew('key', await groupOf(), LONG)).toBe(true);
    expect(gateway.asked.splice(0)).toEqual([TXN, BEAT, TXN, TXN, BEAT, TXN]);
    beats = 0;
    expect(await store.tryAcquireShared('key', 'r2', LONG)).toBeDefined();
    expect(gateway.asked).toEqual([TXN, BEAT, TXN, TXN, BEAT, TXN]);
    expect(await readers()).toBe('r1,r2,');
  });

  it('does not bind the key to a shorter etcd lease if a leader does not know the present one', async () => {
    await store.tryAcquireShared('key', 'r1', LONG);
    const lease = await leaseOf();
    let beats = 0;
    gateway.rule = async ({ path, forward }) => {
      const { status, text } = await forward();
      return {
        status,
        text: path === BEAT && beats++ === 0 ? text.replace(/"TTL":"\d+"/, '"TTL":"0"') : text,
      };
    };
    expect(await store.tryAcquireShared('key', 'r2', 5000)).toBeDefined();
    expect(await leaseOf()).toBe(lease);
  });

  it('does not delay the renewals of other keys if a leader does not know the etcd lease of the group', async () => {
    const { group } = (await store.tryAcquireShared('key', 'r1', LONG))!;
    const lease = (await leaseOf())!;
    await store.tryAcquire('key 2', 'me', LONG);
    gateway.rule = async ({ path, forward }) => {
      const { status, text } = await forward();
      return { status, text: path === BEAT ? withoutLease(lease, text) : text };
    };
    expect(await renewEach(store, [group, 'me'])).toEqual([undefined, true]);
    const waiting = store.renew('key', group, LONG);
    gateway.rule = ({ forward }) => forward();
    expect(await waiting).toBe(true);
    expect(await leaseOf()).toBe(lease);
  });

  describe('when an answer is lost, or a request is executed late', () => {
    it('forms one group, and joins and leaves it once', async () => {
      loseAnswers();
      const grant = await store.tryAcquireShared('key', 'r1', LONG);
      expect(grant!.group).toBe(`${OWNER}:${grant!.token}`);
      expect(await store.inspect('key')).toMatchObject({ owner: grant!.group, token: grant!.token });
      loseAnswers();
      expect(await store.tryAcquireShared('key', 'r2', LONG)).toEqual(grant);
      expect(await readers()).toBe('r1,r2,');
      loseAnswers();
      expect(await store.releaseShared('key', 'r2')).toBe(true);
      expect(await readers()).toBe('r1,');
      loseAnswers();
      expect(await store.releaseShared('key', 'r1')).toBe(true);
      expect(await etcd.entry('key')).toBeUndefined();
      expect(await store.releaseShared('key', 'r1')).toBe(false);
    });

    it('keeps the etcd lease of a group that it forms or extends without an answer', async () => {
      loseAnswers();
      await store.tryAcquireShared('key', 'r1', 5000);
      const [first] = [await leaseOf()];
      expect(await etcd.leases()).toContain(first);
      loseAnswers();
      await store.tryAcquireShared('key', 'r2', LONG);
      expect(await etcd.leases()).toContain(await leaseOf());
      expect(await store.renew('key', await groupOf(), LONG)).toBe(true);
    });

    it('does not end a group that other readers have joined since, if the reader that forms it gives up', async () => {
      const forming = await holdWrite((hasty) => hasty.tryAcquireShared('key', 'r1', LONG));
      // The reader's release comes before the transaction is executed.
      await expectSoon(() => afterHeld).toBeGreaterThan(0);
      await forming.forward();
      expect(await readers()).toBe('r1,');
      const grant = await other.tryAcquireShared('key', 'r2', LONG);
      expect(grant!.group).toMatch(`${OWNER}:`);
      const lease = await leaseOf();
      expect(await other.renew('key', await groupOf(), LONG)).toBe(true);
      expect(await etcd.leases()).toContain(lease);
    });

    it('removes a reader that gave up after its transaction was executed', async () => {
      await other.tryAcquireShared('key', 'r1', LONG);
      const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
      let isHeld = false;
      gateway.rule = async (request) => {
        const answer = await request.forward();
        if (isHeld || !isWrite(request)) return answer;
        isHeld = true;
        return new Promise<GatewayAnswer>(() => undefined);
      };
      await expect(hasty.tryAcquireShared('key', 'r2', LONG)).rejects.toMatchObject({
        code: 'ERR_LEASE_STORE',
      });
      await expectSoon(readers).toBe('r1,');
    });

    it('does not change the key by a transaction that was prepared before another one', async () => {
      await other.tryAcquireShared('key', 'r1', LONG);
      const join = await holdWrite((hasty) => hasty.tryAcquireShared('key', 'r2', LONG));
      expect(await other.renew('key', await groupOf(), LONG)).toBe(true);
      const move = await holdWrite((hasty) => hasty.tryAcquireShared('key', 'r3', 2 * LONG));
      expect(await other.renew('key', await groupOf(), LONG)).toBe(true);
      const leave = await holdWrite((hasty) => hasty.releaseShared('key', 'r1'));
      expect(await other.renew('key', await groupOf(), LONG)).toBe(true);
      const before = await etcd.entry('key');
      for (const late of [join, move, leave]) {
        expect(JSON.parse((await late.forward()).text)).not.toHaveProperty('succeeded');
      }
      expect(await etcd.entry('key')).toEqual(before);
    });

    it('does not disturb the next group or a writer', async () => {
      await other.tryAcquireShared('key', 'r1', LONG);
      const leave = await holdWrite((hasty) => hasty.releaseShared('key', 'r1'));
      const putOff = await holdWrite((hasty) => hasty.putOffReaders('key', LONG));
      await other.releaseShared('key', 'r1');
      const next = await other.tryAcquireShared('key', 'r2', LONG);
      await Promise.all([leave.forward(), putOff.forward()]);
      expect(await other.tryAcquireShared('key', 'r3', LONG)).toEqual(next);
      const join = await holdWrite((hasty) => hasty.tryAcquireShared('key', 'r4', LONG));
      for (const id of ['r2', 'r3']) await other.releaseShared('key', id);
      const token = await other.tryAcquire('key', 'writer', LONG);
      await join.forward();
      expect(await other.inspect('key')).toMatchObject({ owner: 'writer', token });
    });

    it('says false if the group expired, and not that the reader left it', async () => {
      await store.tryAcquireShared('key', 'r1', LONG);
      let isFirst = true;
      gateway.rule = async (request) => {
        if (!isWrite(request) || !isFirst) return request.forward();
        isFirst = false;
        await etcd.ask(REVOKE, { ID: (await leaseOf())! });
        return 'cut';
      };
      expect(await store.releaseShared('key', 'r1')).toBe(false);
    });

    it('does not end the lease of another key that reuses the etcd lease, when a revocation is sent again', async () => {
      await other.tryAcquireShared('key', 'r1', 4000);
      const lease = await leaseOf();
      let isFirst = true;
      gateway.rule = async (request) => {
        if (!isWrite(request) || !isFirst) return request.forward();
        isFirst = false;
        await other.releaseShared('key', 'r1');
        await other.tryAcquire('another', 'writer', 4000);
        return 'cut';
      };
      await revokeLease(store, 'key');
      expect((await etcd.entry('another'))!.lease).toBe(lease);
      expect(await etcd.leases()).toContain(lease);
    });
  });
});
