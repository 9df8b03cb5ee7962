import { describe, expect, it } from 'vitest';
import { LeaseLostError, LeaseManager, LockTimeoutError } from 'stripelock';
import { rejectionOf, thrownBy, turns, until, watch } from '../support/waiting.js';
import { ownersOf, ways } from './several-stores.js';

const backoff = { initial: 2, max: 20 };
const FREE = [undefined, undefined, undefined];

describe.each(ways)('several keys in one lease, taken %s', (_way, make) => {
  it('are sorted, each once, with a token for each', async () => {
    const manager = new LeaseManager({ store: make() });
    const lease = await manager.acquire(['b', 'a', 'b', 'ä', 'B']);
    expect(lease.keys).toEqual(['B', 'a', 'b', 'ä']);
    expect([...lease.tokens.keys()]).toEqual(lease.keys);
    const states = await Promise.all(lease.keys.map((key) => manager.store.inspect(key)));
    expect(states.map((state) => state?.token)).toEqual([...lease.tokens.values()]);
    expect(states.every((state) => state?.owner === lease.holder)).toBe(true);
    expect(lease.held).toBe(true);
    lease.assertHeld();
  });

  it('have no single key or token; a list of one key has', async () => {
    const manager = new LeaseManager({ store: make() });
    const lease = await manager.acquire(['a', 'b']);
    expect(thrownBy(() => lease.key)).toMatchObject({ code: 'ERR_LEASE_KEYS' });
    expect(thrownBy(() => lease.token)).toMatchObject({ code: 'ERR_LEASE_KEYS' });
    const single = await manager.acquire(['c', 'c']);
    expect([single.key, single.keys]).toEqual(['c', ['c']]);
    expect(single.tokens).toEqual(new Map([['c', single.token]]));
  });

  it('are taken all or none', async () => {
    const store = make();
    const held = await new LeaseManager({ store }).acquire('b');
    const manager = new LeaseManager({ store, backoff });
    expect(await manager.tryAcquire(['a', 'b', 'c'])).toBeUndefined();
    expect(await ownersOf(store, ['a', 'b', 'c'])).toEqual([undefined, held.holder, undefined]);
    expect(await manager.withLease(['c', 'b'], { ifAvailable: true }, () => 'ran')).toBeUndefined();
    await held.release();
    expect(await manager.withLease(['c', 'b'], { ifAvailable: true }, ({ keys }) => keys)).toEqual([
      'b',
      'c',
    ]);
    expect(await ownersOf(store, ['a', 'b', 'c'])).toEqual(FREE);
  });

  it('time out with an error that names all of them and the one that is held, and take nothing', async () => {
    const store = make();
    await new LeaseManager({ store }).acquire('b');
    for (const timeout of [0, 30]) {
      const error = await rejectionOf(
        new LeaseManager({ store, backoff }).acquire(['a', 'b', 'c'], { timeout }),
      );
      expect(error).toBeInstanceOf(LockTimeoutError);
      expect(error).toMatchObject({ timeout, keys: ['a', 'b', 'c'] });
      expect((error as Error).message).toContain('key "b" is held');
      await until(() => true, 'the rest is given back');
      expect(await ownersOf(store, ['a', 'c'])).toEqual([undefined, undefined]);
    }
  });

  it('are not held while one of them is waited for', async () => {
    const store = make();
    const one = new LeaseManager({ store, backoff });
    const held = await one.acquire('b');
    const waiting = watch(new LeaseManager({ store, backoff }).acquire(['a', 'b', 'c'], { timeout: 20_000 }));
    await turns();
    for (const key of ['a', 'c']) expect(await (await one.acquire(key)).release()).toBe(true);
    expect(waiting.state).toBe('pending');
    await held.release();
    const lease = await waiting.promise;
    expect(await ownersOf(store, ['a', 'b', 'c'])).toEqual([lease.holder, lease.holder, lease.holder]);
  });

  it('are given back when the wait is aborted', async () => {
    const store = make();
    const held = await new LeaseManager({ store }).acquire('b');
    const abort = new AbortController();
    const waiting = new LeaseManager({ store, backoff }).acquire(['a', 'b'], { signal: abort.signal });
    await turns();
    const reason = new Error('enough');
    abort.abort(reason);
    expect(await rejectionOf(waiting)).toBe(reason);
    await held.release();
    const other = new LeaseManager({ store, backoff });
    expect((await other.acquire(['a', 'b'], { timeout: 20_000 })).held).toBe(true);
  });

  it('are released by close, which ends waits for several keys, too', async () => {
    const store = make();
    const manager = new LeaseManager({ store, backoff });
    const lease = await manager.acquire(['a', 'b']);
    const { signal } = lease;
    const waiting = rejectionOf(manager.acquire(['b', 'c']));
    await manager.close();
    expect(await waiting).toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' });
    expect([lease.held, signal.aborted]).toEqual([false, true]);
    expect(await ownersOf(store, ['a', 'b', 'c'])).toEqual(FREE);
    expect(await rejectionOf(manager.acquire(['b', 'c']))).toMatchObject({
      code: 'ERR_LEASE_MANAGER_CLOSED',
    });
    expect(await rejectionOf(manager.acquire([]))).toMatchObject({ code: 'ERR_LEASE_MANAGER_CLOSED' });
  });

  it('are lost together when one of them is lost, and release frees the others', async () => {
    const store = make();
    const manager = new LeaseManager({ store });
    const lease = await manager.acquire(['a', 'b', 'c']);
    const { signal } = lease;
    await store.release('b', lease.holder);
    expect(await lease.renew()).toBe(false);
    expect([lease.held, signal.aborted]).toEqual([false, true]);
    expect(signal.reason).toBeInstanceOf(LeaseLostError);
    expect(signal.reason).toMatchObject({ key: 'b', token: lease.tokens.get('b') });
    expect(thrownBy(() => lease.assertHeld())).toMatchObject({ key: 'b' });
    // The holder may still be at work.
    expect(await ownersOf(store, ['a', 'b', 'c'])).toEqual([lease.holder, undefined, lease.holder]);
    expect(await lease.release()).toBe(false);
    expect(await ownersOf(store, ['a', 'b', 'c'])).toEqual(FREE);
  });

  it('do not lose a key that another lease has taken in between', async () => {
    const store = make();
    const lease = await new LeaseManager({ store }).acquire(['a', 'b']);
    await store.release('b', lease.holder);
    const other = await new LeaseManager({ store }).acquire('b');
    expect(await lease.release()).toBe(false);
    expect(other.held && (await other.renew())).toBe(true);
    expect((await store.inspect('a'))?.owner).toBeUndefined();
  });

  it('of no keys are a valid lease of nothing', async () => {
    const manager = new LeaseManager({ store: make() });
    const lease = await manager.acquire([]);
    expect([lease.held, lease.keys, lease.tokens.size, lease.expiresAt]).toEqual([true, [], 0, Infinity]);
    expect(lease.signal.aborted).toBe(false);
    expect(await lease.renew()).toBe(true);
    expect([await lease.release(), await lease.release(), lease.held]).toEqual([true, false, false]);
    expect(thrownBy(() => lease.assertHeld())).toBeInstanceOf(LeaseLostError);
    expect(await manager.withLease([], { ifAvailable: true }, () => 'ran')).toBe('ran');
    expect((await manager.acquire([], { timeout: 0 })).held).toBe(true);
  });

  it('are copied: the list may change afterwards', async () => {
    const store = make();
    const held = await new LeaseManager({ store }).acquire('b');
    const keys = ['b', 'a'];
    const waiting = new LeaseManager({ store, backoff }).acquire(keys, { timeout: 20_000 });
    keys.push('c');
    await held.release();
    expect((await waiting).keys).toEqual(['a', 'b']);
  });

  it('are refused if one of them is bad, and nothing is taken', async () => {
    const store = make();
    const manager = new LeaseManager({ store });
    const wrong: readonly (readonly [unknown, string])[] = [
      [['a', ''], 'ERR_OUT_OF_RANGE'],
      [['a', 1], 'ERR_INVALID_ARG_TYPE'],
      [new Set(['a']), 'ERR_INVALID_ARG_TYPE'],
      [undefined, 'ERR_INVALID_ARG_TYPE'],
    ];
    for (const [keys, code] of wrong) {
      expect(await rejectionOf(manager.acquire(keys as string[]))).toMatchObject({ code });
      expect(await rejectionOf(manager.tryAcquire(keys as string[]))).toMatchObject({ code });
    }
    expect(await ownersOf(store, ['a'])).toEqual([undefined]);
  });
});
