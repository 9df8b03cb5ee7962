import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LeaseManager, type Clock, type Lease } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { sqliteDrivers } from '../support/sqlite.js';
import { SqliteScene, WallClock } from './sqlite-setup.js';

const LONG = 600_000;
/** A waiter that polls would ask again after many seconds, which these tests do not wait for. */
const PATIENT = { initial: 50_000, max: 50_000, jitter: 0 };
const timeout = 40_000;

const CONTENDER = fileURLToPath(new URL('../programs/sqlite-contender.mjs', import.meta.url));

interface Outcome {
  readonly grants: number;
  readonly timeouts: number;
}

/** A process that is ready to take the keys again and again for that many milliseconds. */
async function contender(file: string, keys: string, milliseconds: number): Promise<ChildProcess> {
  const child = fork(CONTENDER, [file, keys, String(milliseconds)]);
  onTestFinished(() => void child.kill('SIGKILL'));
  await once(child, 'message');
  return child;
}

async function contend(file: string, milliseconds: number, ...sets: string[]): Promise<Outcome[]> {
  const children = await Promise.all(sets.map((keys) => contender(file, keys, milliseconds)));
  const outcomes = children.map(async (child) => ((await once(child, 'message')) as [Outcome])[0]);
  for (const child of children) child.send('start');
  return Promise.all(outcomes);
}

describe.runIf(sqliteDrivers.length > 0)('processes that contend for leases in a SQLite file', () => {
  const sqlite = new SqliteScene(sqliteDrivers[0]!);

  it('and never pause take turns', async () => {
    const outcomes = await contend(sqlite.file, 3000, 'key', 'key', 'key');
    expect(outcomes.map(({ timeouts }) => timeouts)).toEqual([0, 0, 0]);
    const grants = outcomes.map((outcome) => outcome.grants);
    expect(3 * Math.min(...grants)).toBeGreaterThan(Math.max(...grants));
  });

  it('get several keys although others take each of them without a pause', async () => {
    const outcomes = await contend(sqlite.file, 4000, 'a,b', 'a', 'b');
    expect(outcomes.map(({ timeouts }) => timeouts)).toEqual([0, 0, 0]);
    const [several, ...single] = outcomes.map((outcome) => outcome.grants);
    expect(40 * several!).toBeGreaterThan(Math.max(...single));
  });

  it('pass over one that was killed while it waited', async () => {
    const manager = new LeaseManager({ store: sqliteLeaseStore({ database: sqlite.open() }), ttl: LONG });
    const other = new LeaseManager({
      store: sqliteLeaseStore({ database: sqlite.open() }),
      backoff: PATIENT,
    });
    const held = await manager.acquire('key');
    const child = await contender(sqlite.file, 'key', 1);
    child.send('start');
    await expect.poll(() => waitersOf(sqlite), { timeout: 20_000 }).toBe(1);
    child.kill('SIGKILL');
    await once(child, 'exit');
    const waiting = other.acquire('key', { timeout });
    await expect.poll(() => waitersOf(sqlite), { timeout: 20_000 }).toBe(2);
    const released = performance.now();
    await held.release();
    await (await waiting).release();
    expect(performance.now() - released).toBeLessThan(10_000);
  });
});

function waitersOf(sqlite: SqliteScene): unknown {
  const database = sqlite.open();
  return database.prepare('SELECT count(*) AS waiters FROM stripelock_leases_waiters').get()?.['waiters'];
}

describe.each(sqliteDrivers)('a waiter for a lease in SQLite, on $name', (driver) => {
  const sqlite = new SqliteScene(driver);

  /** On it no turn lapses, however busy the machine is. */
  const clock = { now: () => 1_700_000_000_000 };
  const storeOn = (clock?: Clock): ReturnType<typeof sqliteLeaseStore> =>
    sqliteLeaseStore({ database: sqlite.open(), ...(clock && { clock }) });
  const manager = (clock?: Clock): LeaseManager =>
    new LeaseManager({ store: storeOn(clock), ttl: LONG, backoff: PATIENT });
  const recorded = (count: number): Promise<void> =>
    expect.poll(() => waitersOf(sqlite), { timeout: 20_000 }).toBe(count);

  /** Somebody else has the key. */
  async function acquired(): Promise<void> {
    await (await manager().acquire('key', { timeout })).release();
  }

  it('has it when it expires, however long its pauses are', async () => {
    const asked = performance.now();
    await storeOn().tryAcquire('key', 'gone', 300);
    await acquired();
    const elapsed = performance.now() - asked;
    expect(elapsed).toBeGreaterThan(250);
    expect(elapsed).toBeLessThan(10_000);
  });

  it('has it at the end of minHold, however long its pauses are', async () => {
    const asked = performance.now();
    const lease = await manager().acquire('key', { minHold: 500 });
    const waiting = acquired();
    await recorded(1);
    await lease.release();
    await waiting;
    const elapsed = performance.now() - asked;
    expect(elapsed).toBeGreaterThan(450);
    expect(elapsed).toBeLessThan(10_000);
  });

  it('joins other readers when new readers are no longer put off, however long its pauses are', async () => {
    const holder = storeOn();
    const { token } = (await holder.tryAcquireShared('key', 'reader', LONG))!;
    await holder.putOffReaders('key', 300);
    const never = { initial: LONG, max: LONG, jitter: 0 };
    const waiting = new LeaseManager({ store: storeOn(), ttl: LONG, backoff: never });
    const lease = await waiting.acquire('key', { mode: 'shared', timeout: LONG });
    expect(lease.token).toBe(token);
    await lease.release();
  });

  it('gets the key before later waiters, and before the store that releases it', async () => {
    const [first, second, third] = [manager(clock), manager(clock), manager(clock)];
    const held = await first.acquire('key');
    const order: string[] = [];
    const waits = async (name: string, by: LeaseManager): Promise<void> => {
      const lease: Lease = await by.acquire('key', { timeout });
      order.push(name);
      await lease.release();
    };
    const waiting = [waits('second', second)];
    await recorded(1);
    waiting.push(waits('third', third));
    await recorded(2);
    await held.release();
    waiting.push(waits('first', first));
    await Promise.all(waiting);
    expect(order).toEqual(['second', 'third', 'first']);
  });

  it('has its turn, in which no other store is granted the key, or holds it', async () => {
    const [holder, waiter] = [storeOn(clock), storeOn(clock)];
    await holder.tryAcquire('key', 'holder', LONG);
    const stop = waiter.onRelease('key', () => undefined);
    expect(await waiter.tryAcquire('key', 'waiter', LONG)).toBeUndefined();
    expect(await holder.release('key', 'holder')).toBe(true);
    expect(await holder.inspect('key')).toBeUndefined();
    expect(await holder.tryAcquire('key', 'holder', LONG)).toBeUndefined();
    expect(await holder.tryAcquireAll(['free', 'key'], 'holder', LONG)).toBe(1);
    // Processes of versions that know nothing of turns see a lease of another owner.
    const seen = sqlite.open().prepare('SELECT owner, expires FROM stripelock_leases').all();
    expect(seen).toEqual([{ owner: expect.any(String) as string, expires: clock.now() + 200 }]);
    expect(await waiter.tryAcquire('key', 'waiter', LONG)).toBeTypeOf('bigint');
    stop();
  });

  it('leaves nothing behind when it gives up', async () => {
    const held = await manager().acquire('key');
    const database = sqlite.open();
    const store = sqliteLeaseStore({ database });
    const impatient = new LeaseManager({ store, backoff: PATIENT });
    const abort = new AbortController();
    const aborted = expect(impatient.acquire('key', { timeout, signal: abort.signal })).rejects.toBe(
      'enough',
    );
    await recorded(1);
    abort.abort('enough');
    await aborted;
    await recorded(0);
    const closed = expect(impatient.acquire('key', { timeout })).rejects.toMatchObject({
      code: 'ERR_LEASE_MANAGER_CLOSED',
    });
    await recorded(1);
    await impatient.close();
    await store.close();
    await closed;
    expect(waitersOf(sqlite)).toBe(0);
    await held.release();
  });

  it('stays recorded for as long as it waits', async () => {
    const held = await manager().acquire('key');
    const waiting = manager().acquire('key', { timeout });
    await recorded(1);
    const database = sqlite.open();
    const ends = (): unknown =>
      database.prepare('SELECT ends FROM stripelock_leases_waiters').get()?.['ends'];
    const first = ends();
    await expect.poll(ends, { timeout: 20_000 }).toBeGreaterThan(first as number);
    await held.release();
    await (await waiting).release();
  });
});

describe.runIf(sqliteDrivers.length > 0)('the record of a store that waits in a SQLite file', () => {
  const sqlite = new SqliteScene(sqliteDrivers[0]!);
  const clock = new WallClock();
  const storeOf = (database = sqlite.open()): ReturnType<typeof sqliteLeaseStore> => {
    const store = sqliteLeaseStore({ database, clock });
    onTestFinished(() => store.close());
    return store;
  };

  it('leaves the queue when it is granted the key, so its own release reserves the key for no one', async () => {
    const [holder, waiter, other] = [storeOf(), storeOf(), storeOf()];
    await holder.tryAcquire('key', 'a', 1000);
    const stop = waiter.onRelease('key', () => undefined);
    expect(await waiter.tryAcquire('key', 'b', 1000)).toBeUndefined();
    clock.time += 2000;
    expect(await waiter.tryAcquire('key', 'b', LONG)).toBeDefined();
    stop();
    expect(await waiter.release('key', 'b')).toBe(true);
    expect(await other.tryAcquire('key', 'c', LONG)).toBeDefined();
  });

  it('does not keep the key from a writer, if it waits for a reader that is put off', async () => {
    const [holder, reader, writer] = [storeOf(), storeOf(), storeOf()];
    await holder.tryAcquireShared('key', 'r1', LONG);
    await holder.putOffReaders('key', 1000);
    reader.onRelease('key', () => undefined);
    expect(await reader.tryAcquireShared('key', 'r2', LONG)).toBeUndefined();
    const stop = writer.onRelease('key', () => undefined);
    expect(await writer.tryAcquire('key', 'w', LONG)).toBeUndefined();
    stop();
    expect(await holder.releaseShared('key', 'r1')).toBe(true);
    for (const time of [0, 999]) {
      clock.time += time;
      expect(await reader.tryAcquireShared('key', 'r2', LONG)).toBeUndefined();
    }
    expect(await writer.tryAcquire('key', 'w', LONG)).toBeDefined();
    // The reader's store still waits, so it has the next turn.
    expect(await writer.release('key', 'w')).toBe(true);
    expect(await writer.tryAcquire('key', 'w', LONG)).toBeUndefined();
    expect(await reader.tryAcquireShared('key', 'r2', LONG)).toBeDefined();
  });

  it.each([
    ['gets no turn once it has expired', 0, true],
    ['gets a turn as long as it has not', 1, false],
  ])('%s', async (_what, left, isFree) => {
    const database = sqlite.open();
    const [holder, other] = [storeOf(database), storeOf()];
    await holder.tryAcquire('key', 'a', LONG);
    database
      .prepare('INSERT INTO stripelock_leases_waiters (store, key, ends) VALUES (?, ?, ?)')
      .run('a store that died', 'key', clock.time + left);
    expect(await holder.release('key', 'a')).toBe(true);
    expect((await other.tryAcquire('key', 'b', LONG)) !== undefined).toBe(isFree);
  });

  it('is extended while it waits, so that it keeps its turn', async () => {
    const [holder, waiter, other] = [storeOf(), storeOf(), storeOf()];
    await holder.tryAcquire('key', 'a', LONG);
    waiter.onRelease('key', () => undefined);
    expect(await waiter.tryAcquire('key', 'b', LONG)).toBeUndefined();
    const ends = sqlite.open().prepare('SELECT ends - ? AS left FROM stripelock_leases_waiters');
    for (let i = 0; i < 3; i++) {
      clock.time += 3000;
      await expect.poll(() => Number(ends.get(clock.time)!['left']), { timeout: 20_000 }).toBe(5000);
    }
    expect(await holder.release('key', 'a')).toBe(true);
    expect(await other.tryAcquire('key', 'c', LONG)).toBeUndefined();
    expect(await waiter.tryAcquire('key', 'b', LONG)).toBeDefined();
  });
});
