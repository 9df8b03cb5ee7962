import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LockError, type LeaseWarning } from 'stripelock';
import { rejectionOf, until } from '../support/waiting.js';
import { failing, gate } from './faulty-store.js';
import { onFaultyStore } from './fixed-time.js';

const TTL = 900;

type Told = LeaseWarning & { at: number };

function withWarnings(warning?: {
  before?: number;
}): ReturnType<typeof onFaultyStore> & { warnings: Told[] } {
  const warnings: Told[] = [];
  const call = (told: LeaseWarning): void => void warnings.push({ ...told, at: made.clock.now() });
  const made = onFaultyStore({ ttl: TTL, ...(warning && { warning: { ...warning, call } }) });
  return { ...made, warnings };
}

describe('a lease that ends because it could not be renewed', () => {
  it('reports that, with the cause', async () => {
    const { manager, store, pass } = withWarnings();
    const lease = await manager.acquire('key');
    const { signal } = lease;
    store.before.renew = failing;
    await pass(TTL);
    const cause = { code: 'ERR_LEASE_STORE', cause: { message: 'the network is down' } };
    expect(signal.reason).toMatchObject({ code: 'ERR_LEASE_LOST', cause });
    expect((signal.reason as Error).message).toMatch(/it expired.*the network is down/);
  });

  it('does not report a failure that ended earlier as its cause', async () => {
    const { clock, manager, store, pass } = withWarnings();
    const lease = await manager.acquire('key', { maxHold: 500 });
    const { signal } = lease;
    store.before.renew = () => {
      if (clock.now() < 350) failing();
    };
    await pass(2 * TTL);
    expect(signal.reason).toMatchObject({ code: 'ERR_LEASE_LOST' });
    expect((signal.reason as Error).cause).toBeUndefined();
  });
});

describe('a warning before the end', () => {
  it('comes once, at the set time before the deadline, while renewals fail, and again with the next failures', async () => {
    const { clock, manager, store, warnings, pass } = withWarnings({ before: 200 });
    const lease = await manager.acquire('key');
    store.before.renew = () => {
      const now = clock.now();
      if (now < 750 || (now > 1500 && now < 3000)) failing();
    };
    await pass(2600);
    const { token, holder } = lease;
    const told = { key: 'key', token, holder, remaining: 200, cause: { code: 'ERR_LEASE_STORE' } };
    expect(warnings).toMatchObject([told, told]);
    expect(warnings[0]!.at).toBe(700);
    expect(lease.held).toBe(false);
  });

  it('also comes while a renewal hangs, by default a third of the TTL before the deadline', async () => {
    const { manager, store, warnings, pass } = withWarnings({});
    const lease = await manager.acquire('key');
    const hangs = gate();
    store.before.renew = hangs.pass;
    await pass(599);
    expect(warnings).toEqual([]);
    await pass(1);
    expect(warnings).toMatchObject([{ at: 600, remaining: 300, cause: undefined }]);
    hangs.open();
    await pass(5 * TTL);
    expect([warnings.length, lease.held]).toEqual([1, true]);
  });

  it('does not come if renewals succeed or are switched off, and is refused if it makes no sense', async () => {
    const { manager, warnings, pass } = withWarnings({ before: 800 });
    const leases = [await manager.acquire('a'), await manager.acquire('b', { renew: false })];
    await pass(2 * TTL);
    expect([warnings, leases.map(({ held }) => held)]).toEqual([[], [true, false]]);
    const call = (): void => undefined;
    for (const [warning, code] of [
      [5, 'ERR_INVALID_ARG_TYPE'],
      [{}, 'ERR_INVALID_ARG_TYPE'],
      [{ call, before: '5' }, 'ERR_INVALID_ARG_TYPE'],
      [{ call, before: 0 }, 'ERR_OUT_OF_RANGE'],
      [{ call, before: 900 }, 'ERR_OUT_OF_RANGE'],
    ]) {
      const asked = manager.acquire('c', { warning: warning as never });
      expect(await rejectionOf(asked)).toMatchObject({ code });
    }
  });

  it('may release the lease', async () => {
    const call = (): void => void lease.release();
    const { store, manager, pass } = onFaultyStore({ ttl: TTL, warning: { before: 400, call } });
    const lease = await manager.acquire('key');
    store.before.renew = failing;
    await pass(500);
    await until(() => store.inner.size === 0, 'it is released');
    expect(lease.held).toBe(false);
  });
});

it('a permanent error reaches all waiters at once, unchanged, and nothing else is reported', async () => {
  const { manager, store } = onFaultyStore({ backoff: { initial: 400, max: 400 } });
  const lease = await manager.acquire('held');
  const denied = (): never => {
    throw new LockError('ERR_LEASE_STORE_DENIED', 'no right to write');
  };
  Object.assign(store.before, { tryAcquire: denied, renew: denied, release: denied });
  const timeout = 30_000;
  const started = performance.now();
  const asked = [
    ...Array.from({ length: 20 }, () => manager.acquire('key', { timeout })),
    ...Array.from({ length: 20 }, () => manager.acquire(['a', 'b'], { timeout })),
    manager.acquire('key', { timeout: 0 }),
    manager.tryAcquire('key'),
    manager.tryAcquire(['a', 'b']),
    manager.withLease('key', { timeout }, () => undefined),
    lease.renew(),
    lease.release(),
  ];
  for (const answer of asked) {
    expect(await rejectionOf(answer as Promise<unknown>)).toMatchObject({
      code: 'ERR_LEASE_STORE_DENIED',
      message: 'no right to write',
    });
  }
  // The pauses of those who ask one after the other would take 8 seconds.
  expect(performance.now() - started).toBeLessThan(4000);
  Object.assign(store.before, { tryAcquire: undefined, renew: undefined, release: undefined });
  await manager.close();
});

it('failures of the store are published, with their operation and the time that is left', async () => {
  const messages: unknown[] = [];
  const listener = (message: unknown): void => void messages.push(message);
  subscribe('stripelock:lease:failed', listener);
  onTestFinished(() => void unsubscribe('stripelock:lease:failed', listener));
  const { manager, store, pass } = withWarnings();
  const lease = await manager.acquire('key');
  store.before.renew = failing;
  await pass(300);
  store.before.release = failing;
  await rejectionOf(lease.release());
  store.before.tryAcquire = failing;
  await rejectionOf(manager.acquire('other', { timeout: 0 }));
  const error = { code: 'ERR_LEASE_STORE', cause: { message: 'the network is down' } };
  const { token, holder } = lease;
  expect(messages.slice(0, 3)).toMatchObject([
    { operation: 'renew', key: 'key', token, holder, remaining: 600, error },
    { operation: 'release', key: 'key', token, holder, remaining: 600, error },
    { operation: 'acquire', key: 'other', token: undefined, remaining: undefined, error },
  ]);
  delete store.before.release;
  await manager.close();
});
