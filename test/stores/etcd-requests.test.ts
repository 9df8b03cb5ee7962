import { setTimeout as delay } from 'node:timers/promises';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { base64, hasEtcd } from '../support/etcd-server.mjs';
import { EtcdGateway, type GatewayAnswer, type Passing } from '../support/etcd-gateway.js';
import { rejectionOf } from '../support/waiting.js';
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

const LONG = 60_000;
/** Milliseconds of a store that gives up soon: enough for what does not hang, on a busy machine. */
const HASTE = 1500;

/** The same answer in another term of the servers. */
function inTerm(term: string, { status, text }: GatewayAnswer): GatewayAnswer {
  return { status, text: text.replace(/"raft_term":"\d+"/g, `"raft_term":"${term}"`) };
}

describe.runIf(hasEtcd)('a request of the etcd store', () => {
  const etcd = new EtcdScene();
  let gateway: EtcdGateway;
  let store: EtcdStore;

  beforeEach(async () => {
    ({ gateway, store } = await etcd.beginWithTokens());
  });

  it('to list is one range, and one for the remaining time of each lease', async () => {
    for (const key of ['a', 'b', 'c']) await store.tryAcquire(key, 'me', LONG);
    gateway.asked.length = 0;
    expect((await store.list({ limit: 2 })).map(({ key }) => key)).toEqual(['a', 'b']);
    expect(gateway.asked.toSorted()).toEqual([RANGE, 'lease/timetolive', 'lease/timetolive'].sort());
  });

  it('to list finds a lease that is bound to another etcd lease after the range was read', async () => {
    const other = etcd.store();
    await store.tryAcquire('key', 'me', 5000);
    const moved = gate();
    const asked = gateway.once('lease/timetolive', async ({ forward }) => {
      await moved.opened;
      return forward();
    });
    const list = store.list();
    await asked;
    expect(await other.renew('key', 'me', LONG)).toBe(true);
    moved.open();
    expect((await list).map(({ key }) => key)).toEqual(['key']);
  });

  // A transaction that was refused because its etcd lease did not exist yet may be executed when a server restarts.
  it('for a key is sent only after the servers have confirmed its new etcd lease', async () => {
    const granting = gate();
    const order: string[] = [];
    gateway.rule = async ({ path, forward }) => {
      if (path === TXN) order.push('binding');
      if (path !== GRANT) return forward();
      await granting.opened;
      const answer = await forward();
      order.push('granted');
      return answer;
    };
    const acquired = store.tryAcquire('key', 'me', LONG);
    await expectSoon(() => gateway.asked).toContain(GRANT);
    await delay(20);
    expect(gateway.asked).not.toContain(TXN);
    granting.open();
    expect(await acquired).toBeTypeOf('bigint');
    // The info is for a renewal, which writes the key again, and here needs an etcd lease that is longer.
    expect(await store.renew('key', 'me', 2 * LONG, 'new')).toBe(true);
    expect(order).toEqual(['granted', 'binding', 'granted', 'binding']);
  });

  it('binds no key to an etcd lease whose creation was requested twice', async () => {
    const ids: string[] = [];
    const revoked: string[] = [];
    gateway.rule = async ({ path, body, forward }) => {
      const { ID } = JSON.parse(body || '{}') as { ID?: string };
      if (path === REVOKE) revoked.push(ID!);
      if (path === GRANT && ids.push(ID!) === 1) return 'cut';
      return forward();
    };
    expect(await store.tryAcquire('key', 'me', LONG)).toBeTypeOf('bigint');
    // The first, sent again, and another.
    expect(new Set(ids).size).toBe(2);
    expect(ids).toEqual([ids[0], ids[0], ids[2]]);
    expect((await etcd.entry('key'))!.lease).toBe(ids[2]);
    await expectSoon(() => revoked).toContain(ids[0]);
  });

  it('is one request to take a key, and one to release it, while the etcd lease of the last lasts', async () => {
    // 994 milliseconds of five seconds are not needed.
    for (let i = 0; i < 3; i++) {
      await store.tryAcquire('key', 'me', 4000);
      await store.release('key', 'me');
    }
    expect(gateway.asked.filter((path) => path === GRANT).length).toBeLessThanOrEqual(1);
    expect(gateway.asked.filter((path) => path === TXN).length).toBeGreaterThanOrEqual(6);
  });

  it('is a few transactions for many keys that are taken at once, each for its owner, and a few to release them', async () => {
    const keys = Array.from({ length: 200 }, (_, i) => `key ${i}`);
    const taken = await etcd.store().tryAcquire('key 7', 'somebody else', LONG);
    const owner = (key: string): string => `owner of ${key}`;
    const tokens = await Promise.all(keys.map((key) => store.tryAcquire(key, owner(key), LONG)));
    expect(tokens.filter((token) => token === undefined)).toHaveLength(1);
    expect(tokens[7]).toBeUndefined();
    expect(gateway.asked.filter((path) => path === TXN).length).toBeLessThanOrEqual(4);
    for (const i of [0, 62, 63, 199]) {
      expect(await store.inspect(keys[i]!)).toMatchObject({ owner: owner(keys[i]!), token: tokens[i] });
    }
    gateway.asked.length = 0;
    const freed = await Promise.all(keys.map((key) => store.release(key, owner(key))));
    expect(freed.filter(Boolean)).toHaveLength(199);
    // One more looks who has the key that this store was refused.
    expect(gateway.asked.filter((path) => path !== REVOKE).length).toBeLessThanOrEqual(5);
    expect(await store.inspect('key 7')).toMatchObject({ owner: 'somebody else', token: taken });
  });

  it('is repeated for waiters that remain, if another one in the same transaction has given up', async () => {
    const limit = 2 * HASTE;
    const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: limit });
    const [first, second] = [gate(), gate()];
    const granting = (): number => gateway.asked.filter((path) => path === GRANT).length;
    gateway.rule = async ({ path, forward }) => {
      if (path === GRANT) await (granting() <= 2 ? first : second).opened;
      return forward();
    };
    const before = [hasty.tryAcquire('key 1', 'me', LONG)];
    await expectSoon(granting).toBe(1);
    before.push(hasty.tryAcquire('key 2', 'me', LONG));
    await expectSoon(granting).toBe(2);
    // No more are under way at once, so these wait, and are sent together.
    const early = rejectionOf(hasty.tryAcquire('key 3', 'me', LONG));
    await delay(limit / 2);
    const late = hasty.tryAcquire('key 4', 'me', LONG);
    first.open();
    await Promise.all(before);
    expect(await early).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(granting()).toBe(4);
    second.open();
    expect(await late).toBeTypeOf('bigint');
    await expectSoon(() => etcd.entry('key 3')).toBeUndefined();
    expect(await hasty.inspect('key 4')).toMatchObject({ owner: 'me' });
  });

  it('is withdrawn if all acquisitions in the same transaction have given up', async () => {
    const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
    gateway.rule = ({ path, forward }) => (path === GRANT ? new Promise(() => undefined) : forward());
    const keys = ['key 1', 'key 2'];
    await Promise.all(keys.map((key) => rejectionOf(hasty.tryAcquire(key, 'me', LONG))));
    await expectSoon(() => gateway.asked).toContain(REVOKE);
  });

  it('binds no key to an etcd lease that is withdrawn, when one of many cannot be read', async () => {
    const keys = Array.from({ length: 5 }, (_, i) => `key ${i}`);
    await etcd.ask('kv/put', { key: base64(`${etcd.prefix}lease/key 2`), value: base64('some text') });
    const revoking = gate();
    const revoked: Promise<GatewayAnswer>[] = [];
    gateway.rule = async ({ path, forward }) => {
      if (path !== REVOKE) return forward();
      await revoking.opened;
      const answer = forward();
      revoked.push(answer);
      return answer;
    };
    const results = await Promise.allSettled(keys.map((key) => store.tryAcquire(key, 'me', LONG)));
    expect(results.map(({ status }) => status === 'fulfilled')).toEqual([true, true, false, true, true]);
    revoking.open();
    await expectSoon(() => revoked.length).toBeGreaterThan(0);
    await Promise.all(revoked);
    for (const key of keys) expect((await etcd.entry(key))?.value, key).toBeDefined();
  });

  it('is a new etcd lease if the earlier one is gone', async () => {
    await store.tryAcquire('key', 'me', 4000);
    const { lease } = (await etcd.entry('key'))!;
    await store.release('key', 'me');
    await etcd.ask(REVOKE, { ID: lease });
    expect(await store.tryAcquire('key', 'me', 4000)).toBeTypeOf('bigint');
    expect((await etcd.entry('key'))!.lease).not.toBe(lease);
  });

  it('is to extend what its owner has, also after another has tried to renew or to release it', async () => {
    await store.tryAcquire('key', 'me', LONG);
    expect(await store.renew('key', 'another', LONG)).toBe(false);
    expect(await store.release('key', 'another')).toBe(false);
    gateway.asked.length = 0;
    expect(await store.renew('key', 'me', LONG)).toBe(true);
    expect(gateway.asked).toEqual([BEAT, RANGE]);
  });

  it('is asked of the next server at once if one is down, and in time if one does not answer', async () => {
    const silent = await EtcdGateway.before(etcd.cluster.port);
    onTestFinished(() => silent.close());
    silent.rule = () => new Promise(() => undefined);
    const dead = 'http://127.0.0.1:1';
    for (const bad of [dead, silent.endpoint]) {
      // Each begins with another server, at random.
      for (let i = 0; i < 4; i++) {
        const both = etcd.store({ endpoints: [bad, gateway.endpoint], timeout: 2000 });
        expect(await both.tryAcquire(`${bad} ${i}`, 'me', LONG), bad).toBeTypeOf('bigint');
        await both.close();
      }
    }
  });

  describe('when a leader that was replaced still answers', () => {
    const STALE = '1';

    it('is to extend again, until the answer of all servers comes from the same term', async () => {
      await store.tryAcquire('key', 'me', LONG);
      gateway.asked.length = 0;
      let beats = 0;
      gateway.rule = async ({ path, forward }) => {
        const answer = await forward();
        return path === BEAT && ++beats === 1 ? inTerm(STALE, answer) : answer;
      };
      expect(await store.renew('key', 'me', LONG)).toBe(true);
      expect(gateway.asked).toEqual([BEAT, RANGE, BEAT, RANGE]);
    });

    it('fails, and does not renew, as long as this lasts', async () => {
      const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
      await hasty.tryAcquire('key', 'me', LONG);
      gateway.rule = async ({ path, forward }) => {
        const answer = await forward();
        return path === BEAT ? inTerm(STALE, answer) : answer;
      };
      await expect(hasty.renew('key', 'me', LONG)).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
    });
  });

  describe('when an answer is lost, or comes late,', () => {
    /** The next request at the path gets no answer; the second is answered. Returns what sends the first to the server. */
    const loseFirst = (path: string): { came: Promise<void>; late: () => Promise<GatewayAnswer> } => {
      let held: Passing | undefined;
      const came = gateway.once(path, (request) => {
        held = request;
        return Promise.resolve('cut');
      });
      return { came, late: () => held!.forward() };
    };

    it('is asked again, and a grant by the first is a grant', async () => {
      void gateway.once(TXN, async ({ forward }) => {
        await forward();
        return 'cut';
      });
      const token = await store.tryAcquire('key', 'me', LONG);
      expect(token).toBeTypeOf('bigint');
      expect(await store.inspect('key')).toMatchObject({ owner: 'me', token });
      expect(await store.release('key', 'me')).toBe(true);
    });

    it('frees a key that an earlier send has freed, and says so', async () => {
      await store.tryAcquire('key', 'me', LONG);
      void gateway.once(TXN, async ({ forward }) => {
        await forward();
        return 'cut';
      });
      expect(await store.release('key', 'me')).toBe(true);
      expect(await store.release('key', 'me')).toBe(false);
    });

    it('does not bind a key if its first send arrives after the key was freed', async () => {
      // A new etcd lease: those that were used before would be ended by it, too.
      const { late } = loseFirst(TXN);
      expect(await store.tryAcquire('key', 'me', LONG)).toBeTypeOf('bigint');
      expect(await store.release('key', 'me')).toBe(true);
      await expectSoon(() => gateway.asked).toContain(REVOKE);
      await expectSoon(async () => (await late()).status).toBe(404);
      expect(await store.inspect('key')).toBeUndefined();
    });

    it('does not let a renewal that arrives late change a lease that was renewed after it', async () => {
      const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
      await hasty.tryAcquire('key', 'me', LONG);
      let late: Passing | undefined;
      gateway.rule = (request) => {
        // Only once it is known to have its etcd lease, so that it could be executed.
        if (request.path !== TXN) return request.forward();
        late = request;
        return new Promise(() => undefined);
      };
      await expect(hasty.renew('key', 'me', 2000, 'late')).rejects.toThrow(/has not answered/);
      gateway.rule = ({ forward }) => forward();
      expect(await hasty.renew('key', 'me', LONG)).toBe(true);
      const renewed = await etcd.entry('key');
      expect(JSON.parse((await late!.forward()).text)).not.toHaveProperty('succeeded');
      expect(await etcd.entry('key')).toEqual(renewed);
      expect((await hasty.inspect('key'))!.remaining).toBeGreaterThan(LONG / 2);
    });

    it.each([1, 2])(
      'does not bind a key to an older etcd lease, after another client has renewed it: transaction %i',
      async (nth) => {
        const other = etcd.store();
        await other.tryAcquire('key', 'me', LONG);
        const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
        let txns = 0;
        let late: Passing | undefined;
        gateway.rule = (request) => {
          if (request.path !== TXN || ++txns < nth) return request.forward();
          late ??= request;
          return new Promise(() => undefined);
        };
        await expect(hasty.renew('key', 'me', 2 * LONG, 'late')).rejects.toThrow(/has not answered/);
        expect(await other.renew('key', 'me', LONG)).toBe(true);
        const { lease } = (await etcd.entry('key'))!;
        await late!.forward();
        expect((await etcd.entry('key'))!.lease).toBe(lease);
      },
    );

    it('writes the info of a renewal while the answer to another renewal of the store is late', async () => {
      const other = etcd.store();
      await other.tryAcquire('key', 'me', LONG);
      const [written, answered, asked, confirmed] = [gate(), gate(), gate(), gate()];
      let [txns, beats] = [0, 0];
      gateway.rule = async ({ path, forward }) => {
        const answer = await forward();
        if (path === TXN && ++txns === 1) {
          written.open();
          await answered.opened;
        }
        if (path === BEAT && ++beats === 2) {
          asked.open();
          await confirmed.opened;
        }
        return answer;
      };
      const first = store.renew('key', 'me', LONG);
      await written.opened;
      const second = store.renew('key', 'me', LONG, 'new');
      await asked.opened;
      answered.open();
      expect(await first).toBe(true);
      confirmed.open();
      expect(await second).toBe(true);
      expect(await store.inspect('key')).toMatchObject({ info: 'new' });
    });

    it('writes the info of a renewal if another renewal of the store rewrites the key first', async () => {
      const other = etcd.store();
      await other.tryAcquire('key', 'me', LONG);
      const [asked, confirmed] = [gate(), gate()];
      let txns = 0;
      gateway.rule = async ({ path, forward }) => {
        if (path === TXN && ++txns === 1) {
          asked.open();
          await confirmed.opened;
        }
        return forward();
      };
      const second = store.renew('key', 'me', LONG, 'new');
      await asked.opened;
      expect(await store.renew('key', 'me', LONG)).toBe(true);
      confirmed.open();
      expect(await second).toBe(true);
      expect(await store.inspect('key')).toMatchObject({ info: 'new' });
    });

    it.each([GRANT, TXN])(
      'does not bind a key to an older etcd lease, after the same store has renewed it: late %s',
      async (path) => {
        await store.tryAcquire('key', 'me', LONG);
        const [asked, renewed] = [gate(), gate()];
        let isLate = false;
        let isRenewed = false;
        const answers: GatewayAnswer[] = [];
        gateway.rule = async (request) => {
          const isFirst = request.path === path && !isLate;
          if (!isFirst) {
            const answer = await request.forward();
            if (request.path === TXN && isRenewed) answers.push(answer);
            return answer;
          }
          isLate = true;
          // An etcd lease is created early. A transaction is executed late.
          const early = path === GRANT ? await request.forward() : undefined;
          asked.open();
          await renewed.opened;
          const answer = early ?? (await request.forward());
          if (path === TXN) answers.push(answer);
          return answer;
        };
        const move = store.renew('key', 'me', LONG, 'new');
        await asked.opened;
        expect(await store.renew('key', 'me', LONG)).toBe(true);
        isRenewed = true;
        renewed.open();
        expect(await move).toBe(true);
        expect(JSON.parse(answers[0]!.text)).not.toHaveProperty('succeeded');
        expect(await store.inspect('key')).toMatchObject({ info: 'new' });
      },
    );

    it('does not bind a key to another etcd lease because a server does not know the present one', async () => {
      const other = etcd.store();
      await other.tryAcquire('key', 'me', LONG);
      const { lease } = (await etcd.entry('key'))!;
      let beats = 0;
      gateway.rule = async ({ path, forward }) => {
        const answer = await forward();
        const isKnown = path !== BEAT || ++beats > 2;
        return isKnown ? answer : { ...answer, text: answer.text.replace(/,"TTL":"\d+"/, '') };
      };
      expect(await store.renew('key', 'me', LONG)).toBe(true);
      expect((await etcd.entry('key'))!.lease).toBe(lease);
      const unknown = [RANGE, BEAT, RANGE];
      expect(gateway.asked).toEqual([...unknown, ...unknown, RANGE, BEAT, TXN]);
    });

    it('does not delay the renewal of another key because a server does not know the etcd lease of one', async () => {
      await etcd.store().tryAcquire('key', 'me', LONG);
      const { lease } = (await etcd.entry('key'))!;
      await store.tryAcquire('key 2', 'me', LONG);
      gateway.rule = async ({ path, forward }) => {
        const { status, text } = await forward();
        return { status, text: path === BEAT ? withoutLease(lease!, text) : text };
      };
      let isAnswered = false;
      const waiting = store.renew('key', 'me', LONG).finally(() => (isAnswered = true));
      expect(await store.renew('key 2', 'me', LONG)).toBe(true);
      expect(await renewEach(store, ['me', 'me'])).toEqual([undefined, true]);
      expect(isAnswered).toBe(false);
      gateway.rule = ({ forward }) => forward();
      expect(await waiting).toBe(true);
      expect((await etcd.entry('key'))!.lease).toBe(lease);
    });

    it('does not free a later grant of the same owner, when a release arrives late', async () => {
      const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
      await hasty.tryAcquire('key', 'me', LONG);
      let late: Passing | undefined;
      gateway.rule = (request) => {
        late = request;
        return new Promise(() => undefined);
      };
      await expect(hasty.release('key', 'me')).rejects.toThrow(/has not answered/);
      gateway.rule = ({ forward }) => forward();
      const token = await hasty.tryAcquire('key', 'me', LONG);
      await late!.forward();
      expect(await hasty.inspect('key')).toMatchObject({ owner: 'me', token });
    });

    it.each([GRANT, TXN])(
      'leaves nothing of an acquisition whose %s is executed after the time limit',
      async (path) => {
        const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
        // It has read the base of tokens.
        await hasty.tryAcquire('other', 'me', LONG);
        const before = new Set(await etcd.leases());
        const held: Passing[] = [];
        const revoked: Promise<GatewayAnswer>[] = [];
        gateway.rule = (request) => {
          if (request.path === path) {
            held.push(request);
            return new Promise(() => undefined);
          }
          const answer = request.forward();
          if (request.path === REVOKE) revoked.push(answer);
          return answer;
        };
        await expect(hasty.tryAcquire('key', 'me', LONG)).rejects.toThrow(/has not answered within 1500 ms/);
        await expectSoon(() => revoked.length).toBeGreaterThan(0);
        await revoked[0];
        expect(held).toHaveLength(1);
        // The etcd lease of the transaction was revoked. The etcd lease of the other request did not exist when it was
        // revoked, so it is created now.
        expect(await held[0]!.forward()).toMatchObject({ status: path === TXN ? 404 : 200 });
        await expectSoon(async () => (await etcd.leases()).filter((id) => !before.has(id))).toEqual([]);
        expect(await etcd.entry('key')).toBeUndefined();
      },
    );

    it('takes a key in one transaction while what its owner was granted without an answer is withdrawn', async () => {
      const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
      await hasty.tryAcquire('first', 'me', LONG);
      hasty.onRelease('key', () => undefined);
      const [found, revoked, granted] = [gate(), gate(), gate()];
      /** Comes to the server between the question who has the key and the transaction. */
      const revoke = async (forward: () => Promise<GatewayAnswer>): Promise<GatewayAnswer> => {
        await found.opened;
        const answer = await forward();
        revoked.open();
        return answer;
      };
      gateway.rule = async ({ path, forward }) => {
        if (path === REVOKE) return revoke(forward);
        const answer = await forward();
        // It has taken the key, and the answer does not come in time.
        return answer.text.includes('"succeeded":true') ? new Promise(() => undefined) : answer;
      };
      await expect(hasty.tryAcquire('key', 'me', LONG)).rejects.toThrow(/has not answered/);
      expect(await etcd.entry('key')).toBeDefined();
      gateway.asked.length = 0;
      gateway.rule = async ({ path, forward }) => {
        if (path === REVOKE) return revoke(forward);
        if (path === TXN) await Promise.all([revoked.opened, granted.opened]);
        const answer = await forward();
        if (path === RANGE) found.open();
        if (path === GRANT) granted.open();
        return answer;
      };
      const token = await hasty.tryAcquire('key', 'me', LONG);
      expect(gateway.asked.filter((path) => path === TXN)).toHaveLength(1);
      await expectSoon(() => store.inspect('key')).toMatchObject({ owner: 'me', token });
    });
  });

  it('fails in bounded time if the server is paused, and leaves nothing when it continues', async () => {
    const hasty = etcd.store({ endpoints: [gateway.endpoint], timeout: HASTE });
    const before = new Set(await etcd.leases());
    const answers: Promise<GatewayAnswer>[] = [];
    gateway.rule = ({ forward }) => {
      const answer = forward();
      answers.push(answer);
      return answer;
    };
    await etcd.cluster.pause();
    const started = performance.now();
    const outcomes = await Promise.allSettled([
      hasty.tryAcquire('key', 'me', LONG),
      hasty.renew('key', 'me', LONG),
      hasty.release('key', 'me'),
      hasty.inspect('key'),
    ]);
    // Far more than the limit, for a machine that is busy.
    expect(performance.now() - started).toBeLessThan(5000);
    etcd.cluster.signal('SIGCONT');
    for (const outcome of outcomes) expect(outcome.status).toBe('rejected');
    // It still does what it was asked then.
    await Promise.all(answers);
    await expectSoon(async () => (await etcd.leases()).filter((id) => !before.has(id))).toEqual([]);
    await expectSoon(() => etcd.entry('key')).toBeUndefined();
  });
});
