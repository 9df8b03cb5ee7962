import { Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager } from 'stripelock';
import { RESERVED_FOR } from '../../unbundled/stores/redis/scripts.js';
import { watch } from '../support/waiting.js';
import { PATIENT, redisLibraries, RedisScene, type RedisStore } from './redis-setup.js';

const LONG = 600_000;
const LEASE = 'stripelock:{108}:key';
const WAITERS = 'stripelock:{108}?key';
const MARK = 'stripelock:{108}!key';

describe.each(redisLibraries)('a group of readers in Redis, on %s', (library) => {
  const redis = new RedisScene(library);

  /** Asks for the key, and is refused, as a store that waits. Returns how often it has been woken since. */
  async function waiting(store: RedisStore, ask: () => Promise<unknown>): Promise<() => number> {
    let woken = 0;
    store.onRelease('key', () => woken++);
    // The store wakes its waiter when it is subscribed.
    await expect.poll(() => woken, { timeout: 20_000 }).toBe(1);
    const before = await redis.command('ZCARD', WAITERS);
    expect(await ask()).toBeUndefined();
    expect(await redis.command('ZCARD', WAITERS)).not.toBe(before);
    return () => woken - 1;
  }

  it('is one value with all readers, has no mark, and leaves only the token of its bucket', async () => {
    const { token } = (await redis.store.tryAcquireShared('key', 'a', LONG))!;
    await redis.store.tryAcquireShared('key', 'b', LONG);
    const text = `stripelock:readers:a:${token}\\x00${'0'.repeat(16)}+,a,b,`;
    const value = await redis.command(
      'EVAL',
      "return (redis.call('GET', KEYS[1]):gsub('%z', '\\\\x00'))",
      1,
      LEASE,
    );
    expect(value).toContain(`${token}:${text}`);
    expect(await redis.command('EXISTS', MARK)).toBe(':0');
    expect(await redis.store.releaseShared('key', 'a')).toBe(true);
    expect(await redis.command('PTTL', LEASE)).toMatch(/^:\d{6}$/);
    expect(await redis.store.releaseShared('key', 'b')).toBe(true);
    expect(await redis.command('KEYS', '*')).toMatch(/^\*1\r\n\$16\r\nstripelock:\{108\}$/);
  });

  it('keeps the mark of an abandoned key for a day longer than its lease', async () => {
    await redis.store.tryAcquire('key', 'gone', 20);
    await expect.poll(() => redis.command('EXISTS', LEASE), { interval: 5 }).toBe(':0');
    const day = 86_400_000;
    const remaining = async (): Promise<number> => Number((await redis.command('PTTL', MARK)).slice(1));
    for (const reader of ['a', 'b']) {
      const details = {};
      await redis.store.tryAcquireShared('key', reader, LONG, details);
      expect(details).toEqual({ abandoned: [true] });
      expect(await remaining()).toBeGreaterThan(day + LONG / 2);
      await redis.command('PEXPIRE', MARK, 1000);
    }
    expect(await redis.store.renew('key', (await redis.store.inspect('key'))!.owner, 2 * LONG)).toBe(true);
    expect(await remaining()).toBeGreaterThan(day + LONG);
    for (const reader of ['a', 'b']) await redis.store.releaseShared('key', reader);
    expect(await remaining()).toBeGreaterThan(day);
  });

  it('leaves a value that refuses readers, expires, and is no lease', async () => {
    await redis.store.tryAcquireShared('key', 'a', LONG);
    await redis.store.putOffReaders('key', 60_000);
    await redis.store.releaseShared('key', 'a');
    expect(await redis.command('GET', LEASE)).toMatch(/\d{16}000~$/);
    const left = Number((await redis.command('PTTL', LEASE)).slice(1));
    expect(left).toBeGreaterThan(1000);
    expect(left).toBeLessThanOrEqual(60_100);
    expect(await redis.store.tryAcquireShared('key', 'b', LONG)).toBeUndefined();
    expect(await redis.store.inspect('key')).toBeUndefined();
    expect(await redis.store.list()).toEqual([]);
    const other = redis.storeWith();
    expect(await other.tryAcquireAll(['key', 'key2'], 'writer', LONG)).toEqual([
      expect.any(BigInt),
      expect.any(BigInt),
    ]);
    expect(await redis.store.release('key', 'writer')).toBe(true);
    expect(await redis.store.tryAcquireShared('key', 'b', LONG)).toBeDefined();
  });

  it('passes the turn of readers that are put off on to a writer of another store', async () => {
    const [reading, writing] = [redis.storeWith(), redis.storeWith()];
    await redis.store.tryAcquireShared('key', 'a', LONG);
    await waiting(reading, () => reading.tryAcquire('key', 'gives up', LONG));
    const writerWoken = await waiting(writing, () => writing.tryAcquire('key', 'next', LONG));
    for (;;) {
      await redis.command('DEL', LEASE, WAITERS);
      await redis.store.tryAcquireShared('key', 'a', LONG);
      await redis.store.putOffReaders('key', LONG);
      for (const store of [reading, writing]) await store.tryAcquire('key', 'next', LONG);
      const started = performance.now();
      await redis.store.releaseShared('key', 'a');
      const refused = await reading.tryAcquireShared('key', 'b', LONG);
      // If the machine is too busy to ask for as long as the key is reserved, the round proves nothing.
      if (performance.now() - started < RESERVED_FOR) {
        expect(refused).toBeUndefined();
        break;
      }
    }
    await expect.poll(writerWoken, { timeout: 20_000 }).toBeGreaterThan(0);
    expect(await writing.tryAcquire('key', 'next', LONG)).toBeTypeOf('bigint');
    expect(await redis.store.release('key', 'next')).toBe(true);
    await expect.poll(() => reading.tryAcquireShared('key', 'b', LONG), { timeout: 20_000 }).toBeDefined();
  });

  it('keeps the place of a writer when a reader of the same store joins the group', async () => {
    await redis.store.tryAcquireShared('key', 'a', LONG);
    const both = redis.storeWith();
    const woken = await waiting(both, () => both.tryAcquire('key', 'writer', LONG));
    expect(await both.tryAcquireShared('key', 'b', LONG)).toBeDefined();
    expect(await redis.command('ZCARD', WAITERS)).toBe(':1');
    await both.releaseShared('key', 'b');
    expect(woken()).toBe(0);
    await redis.store.releaseShared('key', 'a');
    await expect.poll(woken, { timeout: 20_000 }).toBe(1);
  });

  it('leaves the key to any writer if only readers that are put off wait, and notifies them after it', async () => {
    const stores = [redis.storeWith(), redis.storeWith()];
    await redis.store.tryAcquireShared('key', 'a', LONG);
    await redis.store.putOffReaders('key', LONG);
    const woken: (() => number)[] = [];
    for (const store of stores) {
      woken.push(await waiting(store, () => store.tryAcquireShared('key', 'b', LONG)));
    }
    await redis.store.releaseShared('key', 'a');
    for (const store of stores) {
      expect(await redis.command('GET', LEASE)).toMatch(/\d{16}000~$/);
      expect(await store.tryAcquireShared('key', 'b', LONG)).toBeUndefined();
    }
    expect(await redis.store.tryAcquire('key', 'writer', LONG)).toBeTypeOf('bigint');
    expect(woken.map((count) => count())).toEqual([0, 0]);
    expect(await redis.store.release('key', 'writer')).toBe(true);
    await expect.poll(woken[0]!, { timeout: 20_000 }).toBe(1);
  });

  it('finds a writer behind thousands of readers that are put off, without reading them again and again', async () => {
    const writing = redis.storeWith();
    await redis.store.tryAcquireShared('key', 'a', LONG);
    await redis.store.putOffReaders('key', LONG);
    const woken = await waiting(writing, () => writing.tryAcquire('key', 'next', LONG));
    // Stores that have died, and have waited longer: readers, and 31 writers behind them.
    const dead = `for i = 1, 2031 do redis.call('ZADD', KEYS[1], i .. (i > 2000 and '' or '.5'), 'dead' .. i) end`;
    await redis.command('EVAL', dead, 1, WAITERS);
    const reads: number[] = [];
    let ended = false;
    // While ioredis starts to monitor, a command on another connection looks like an unexpected reply to it. So these
    // connections send no command by themselves.
    const client = new Redis(redis.server.port, '127.0.0.1', {
      enableReadyCheck: false,
      disableClientInfo: true,
    });
    await client.ping();
    const monitor = await client.monitor();
    onTestFinished(() => [client, monitor].forEach((each) => each.disconnect()));
    monitor.on('monitor', (_time: string, [command, , from, to]: string[]) => {
      if (command!.toUpperCase() === 'ZRANGE') reads.push(Number(to) - Number(from) + 1);
      ended ||= command!.toUpperCase() === 'ECHO';
    });
    await redis.store.releaseShared('key', 'a');
    await redis.command('ECHO', 'end');
    await expect.poll(() => ended, { timeout: 20_000 }).toBe(true);
    expect(new Set(reads)).toEqual(new Set([100]));
    expect(reads.length).toBeLessThan(2000 / 100 + 40);
    await expect.poll(woken, { timeout: 20_000 }).toBe(1);
    expect(await writing.tryAcquire('key', 'next', LONG)).toBeTypeOf('bigint');
    const left = ["return redis.call('ZRANGE', KEYS[1], 0, -1)[2000]", 1, WAITERS];
    expect(await redis.command('EVAL', ...left)).toContain('dead2000');
    expect(await redis.command('ZCARD', WAITERS)).toBe(':2000');
  });

  it('wakes the writer of one manager if the reader of another manager of the store is put off', async () => {
    const store = redis.storeWith();
    await redis.store.tryAcquireShared('key', 'a', LONG);
    await redis.store.putOffReaders('key', LONG);
    const backoff = { initial: LONG, max: LONG, jitter: 0 };
    const managers = [1, 2].map(() => new LeaseManager({ store, ttl: LONG, backoff }));
    const read = watch(managers[0]!.acquire('key', { mode: 'shared', timeout: LONG }));
    await expect.poll(() => redis.waits()).toBe(':1');
    const written = watch(managers[1]!.acquire('key', { timeout: LONG }));
    await expect.poll(() => redis.command('ZRANGE', WAITERS, 0, 0, 'WITHSCORES')).not.toContain('.5');
    // The client's replies arrive in order, so the writer has been refused after this request.
    await redis.store.inspect('key');
    await redis.store.releaseShared('key', 'a');
    await expect.poll(() => written.state, { timeout: 20_000 }).toBe('fulfilled');
    expect(read.state).toBe('pending');
    await (await written.promise).release();
    await expect.poll(() => read.state, { timeout: 20_000 }).toBe('fulfilled');
    await (await read.promise).release();
    for (const manager of managers) await manager.close();
  });

  it('notifies a store that waits in both modes although readers are put off', async () => {
    const both = redis.storeWith();
    await redis.store.tryAcquireShared('key', 'a', LONG);
    await redis.store.putOffReaders('key', LONG);
    const woken = await waiting(both, () => both.tryAcquireShared('key', 'b', LONG));
    expect(await both.tryAcquire('key', 'writer', LONG)).toBeUndefined();
    expect(await both.tryAcquireShared('key', 'b', LONG)).toBeUndefined();
    await redis.store.releaseShared('key', 'a');
    await expect.poll(woken, { timeout: 20_000 }).toBe(1);
  });

  it.each<[string, () => Promise<unknown>]>([
    ['key', () => redis.store.tryAcquire('key', 'writer', LONG)],
    ['list of keys', () => redis.store.tryAcquireAll(['key', 'key2'], 'writer', LONG)],
  ])(
    'notifies readers that were put off of the release by a writer of a %s that did not wait',
    async (_, write) => {
      const reading = redis.storeWith();
      await redis.store.tryAcquireShared('key', 'a', LONG);
      await redis.store.putOffReaders('key', LONG);
      await redis.store.releaseShared('key', 'a');
      const woken = await waiting(reading, () => reading.tryAcquireShared('key', 'b', LONG));
      expect(await write()).toBeDefined();
      const before = woken();
      expect(await redis.store.release('key', 'writer')).toBe(true);
      await expect.poll(woken, { timeout: 20_000 }).toBeGreaterThan(before);
    },
  );

  it('makes tokens rise after everything was flushed, and when the clock is behind', async () => {
    const first = (await redis.store.tryAcquireShared('key', 'a', LONG))!.token;
    await redis.command('FLUSHALL');
    const ahead = (BigInt(Date.now()) + 3_600_000n) * 1000n;
    await redis.command('SET', 'stripelock:{108}', ahead);
    const second = (await redis.store.tryAcquireShared('key', 'b', LONG))!.token;
    expect(second).toBe((ahead + 1n) * 1000n);
    expect(second > first).toBe(true);
    await redis.command('FLUSHALL');
    expect((await redis.store.tryAcquireShared('key', 'c', LONG))!.token).toBe((ahead + 2n) * 1000n);
    // A reader that joins gets the token of the group, and changes no other.
    expect((await redis.store.tryAcquireShared('key', 'd', LONG))!.token).toBe((ahead + 2n) * 1000n);
    expect(await redis.command('GET', 'stripelock:{108}')).toContain(String(ahead + 2n));
  });

  it('puts off readers until a time of the server’s clock', async () => {
    const { group } = (await redis.store.tryAcquireShared('key', 'a', LONG))!;
    expect(await redis.store.putOffReaders('key', 60_000)).toBe(true);
    const at = 21 + group.length;
    const until = await redis.command('GETRANGE', LEASE, at, at + 15);
    const [seconds] = /^\d+$/m.exec((await redis.command('TIME')).split('\r\n').slice(2).join('\n'))!;
    const left = Number(/\d{16}$/.exec(until)![0]) / 1e6 - Number(seconds);
    expect(left).toBeGreaterThan(1);
    expect(left).toBeLessThanOrEqual(61);
    expect(await redis.store.tryAcquireShared('key', 'b', LONG)).toBeUndefined();
    await redis.command('SETRANGE', LEASE, at, '0'.repeat(16));
    expect(await redis.store.tryAcquireShared('key', 'b', LONG)).toBeDefined();
  });

  it('wakes a waiting writer of another store when the last reader has left', async () => {
    const [reading, other] = [redis.storeWith(), redis.storeWith()];
    await reading.tryAcquireShared('key', 'a', LONG);
    await redis.store.tryAcquireShared('key', 'b', LONG);
    const manager = new LeaseManager({ store: other, ttl: LONG, backoff: PATIENT });
    const acquired = watch(manager.acquire('key', { timeout: 60_000 }));
    await expect.poll(() => redis.waits()).toBe(':1');
    expect(await redis.store.releaseShared('key', 'b')).toBe(true);
    expect(await redis.waits()).toBe(':1');
    expect(acquired.state).toBe('pending');
    expect(await reading.releaseShared('key', 'a')).toBe(true);
    const lease = await acquired.promise;
    expect(await redis.waits()).toBe(':0');
    await lease.release();
    await manager.close();
  });

  it('uses up the reservation of the notified store, and other readers can join', async () => {
    const [first, other] = [redis.storeWith(), redis.storeWith()];
    await redis.store.tryAcquire('key', 'writer', LONG);
    const woken = await waiting(first, () => first.tryAcquireShared('key', 'a', LONG));
    for (;;) {
      const started = performance.now();
      await redis.store.release('key', 'writer');
      const refused = await other.tryAcquireShared('key', 'b', LONG);
      const grant = await first.tryAcquireShared('key', 'a', LONG);
      // If the machine is too busy to ask for as long as the key is reserved, the round proves nothing.
      if (performance.now() - started < RESERVED_FOR) {
        expect(refused).toBeUndefined();
        expect(grant!.group).toMatch(/^stripelock:readers:a:/);
        await expect.poll(woken, { timeout: 20_000 }).toBeGreaterThan(0);
        expect(await other.tryAcquireShared('key', 'b', LONG)).toEqual(grant);
        expect(Number((await redis.command('PTTL', LEASE)).slice(1))).toBeGreaterThan(LONG / 2);
        break;
      }
      for (const reader of ['a', 'b']) await redis.store.releaseShared('key', reader);
      await redis.store.tryAcquire('key', 'writer', LONG);
      await first.tryAcquireShared('key', 'a', LONG);
    }
  });

  it('notifies the waiting readers of all stores, one after the other, up to the first writer', async () => {
    await redis.store.tryAcquire('key', 'writer', LONG);
    const readers = [redis.storeWith(), redis.storeWith(), redis.storeWith()];
    const woken: (() => number)[] = [];
    for (const [i, store] of readers.entries()) {
      woken.push(await waiting(store, () => store.tryAcquireShared('key', `r${i}`, LONG)));
    }
    const writing = redis.storeWith();
    const writerWoken = await waiting(writing, () => writing.tryAcquire('key', 'next', LONG));
    await redis.store.release('key', 'writer');
    for (const [i, store] of readers.entries()) {
      await expect.poll(woken[i]!, { timeout: 20_000 }).toBeGreaterThan(0);
      expect(await store.tryAcquireShared('key', `r${i}`, LONG)).toBeDefined();
    }
    await expect.poll(writerWoken, { timeout: 20_000 }).toBe(1);
    expect(await redis.command('ZCARD', WAITERS)).toBe(':1');
    expect(await writing.tryAcquire('key', 'next', LONG)).toBeUndefined();
    for (const i of readers.keys()) expect(await redis.store.releaseShared('key', `r${i}`)).toBe(true);
    await expect.poll(writerWoken, { timeout: 20_000 }).toBe(2);
    expect(await writing.tryAcquire('key', 'next', LONG)).toBeTypeOf('bigint');
  });

  it('is no group if another owner or a foreign value is at the key', async () => {
    await redis.store.tryAcquire('key', 'stripelock:readers', LONG, `${'0'.repeat(16)}+,a,`);
    expect(await redis.store.tryAcquireShared('key', 'b', LONG)).toBeUndefined();
    expect(await redis.store.releaseShared('key', 'a')).toBe(false);
    expect(await redis.store.putOffReaders('key', LONG)).toBe(false);
    for (const info of [undefined, 'some info', `${'0'.repeat(16)}+,a,`]) {
      await redis.store.tryAcquire('other', 'stripelock:readers:', LONG, info);
      expect(await redis.store.tryAcquireShared('other', 'b', LONG)).toBeUndefined();
      expect(await redis.store.releaseShared('other', 'b')).toBe(false);
      expect(await redis.store.putOffReaders('other', LONG)).toBe(false);
    }
    for (const command of [
      ['RPUSH', LEASE, 'x'],
      ['SET', LEASE, 'some text'],
      ['SET', LEASE, `stripelock:readers:a,${'0'.repeat(16)}+,a,`],
    ]) {
      await redis.command('DEL', LEASE);
      await redis.command(...command);
      await expect(redis.store.tryAcquireShared('key', 'a', LONG)).rejects.toThrow(/WRONGTYPE/);
      await expect(redis.store.releaseShared('key', 'a')).rejects.toThrow(/WRONGTYPE/);
      await expect(redis.store.putOffReaders('key', LONG)).rejects.toThrow(/WRONGTYPE/);
      expect(await redis.command('EXISTS', LEASE)).toBe(':1');
    }
    await redis.command('DEL', LEASE);
    await redis.command('SET', 'stripelock:{108}', 'no number');
    await expect(redis.store.tryAcquireShared('key', 'a', LONG)).rejects.toThrow(/is not a token/);
    expect(await redis.command('EXISTS', LEASE)).toBe(':0');
  });
});
