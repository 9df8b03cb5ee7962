import { types } from 'node:util';
import { describe, expect, it } from 'vitest';
import {
  DeadlockError,
  deserializeError,
  FencingGate,
  KeyedLock,
  LeaseLostError,
  LeaseManager,
  LeaseStoreError,
  LockError,
  LockTimeoutError,
  serializeError,
  StaleTokenError,
  type Lease,
} from 'stripelock';
import { rejectionOf, thrownBy } from '../support/waiting.js';

const sent = (value: unknown): unknown => deserializeError(structuredClone(serializeError(value)));

/** One of each class, as the package makes it. */
async function errors(): Promise<
  [class_: new (...args: never[]) => Error, error: Error, fields: string[]][]
> {
  const lock = new KeyedLock();
  const key = new Uint8Array([1, 2]);
  lock.acquireSync(key);
  const gate = new FencingGate();
  gate.admit('key', 7n);
  const manager = new LeaseManager();
  const lost: Lease = await manager.acquire('key', { renew: false, ttl: 1 });
  await new Promise((resolve) => lost.signal.addEventListener('abort', resolve));
  await manager.close();
  const cause = Object.assign(new Error('connect'), { code: 'ECONNREFUSED', socket: () => undefined });
  return [
    [
      LockTimeoutError,
      (await rejectionOf(lock.acquire(key, { timeout: 1 }))) as Error,
      ['keys', 'timeout', 'stripe', 'holders'],
    ],
    [DeadlockError, thrownBy(() => lock.acquireSync(key)) as Error, ['keys', 'threads', 'stripes']],
    [LockError, (await rejectionOf(manager.acquire('key'))) as Error, []],
    [LeaseLostError, thrownBy(() => lost.assertHeld()) as Error, ['key', 'token']],
    [LeaseStoreError, new LeaseStoreError('the store failed', cause), []],
    [StaleTokenError, thrownBy(() => gate.admit('key', 5n)) as Error, ['key', 'token', 'newest']],
    [TypeError, thrownBy(() => lock.acquireSync({} as never)) as Error, []],
    [RangeError, thrownBy(() => lock.acquireSync(0.5)) as Error, []],
  ];
}

describe('an error that is posted to another thread', () => {
  it('is of its class there, with its code, keys, numbers and stack', async () => {
    for (const [class_, error, fields] of await errors()) {
      const there = sent(error) as Error;
      expect(there).toBeInstanceOf(class_);
      expect(types.isNativeError(there)).toBe(true);
      for (const property of ['name', 'message', 'stack', 'code', ...fields]) {
        const value: unknown = Reflect.get(error, property);
        expect(value, property).toBeDefined();
        expect(Reflect.get(there, property), property).toEqual(value);
      }
      expect(Object.keys(there).sort()).toEqual(Object.keys(error).sort());
      expect('cause' in there).toBe('cause' in error);
    }
  });

  it('keeps its causes, whatever they are', () => {
    const timeout = new LockTimeoutError('too late', ['key'], 5, -1, []);
    const store = Object.assign(new Error('connect', { cause: timeout }), { code: 'ECONNREFUSED' });
    const there = sent(new LeaseStoreError('the store failed', store)) as { cause: typeof store };
    expect(there.cause).toMatchObject({ name: 'Error', message: 'connect', code: 'ECONNREFUSED' });
    expect(there.cause.cause).toBeInstanceOf(LockTimeoutError);
    expect(sent(new LeaseStoreError('the store failed', Symbol('odd')))).toMatchObject({
      cause: 'Symbol(odd)',
    });
    const cycle = new Error('cycle');
    cycle.cause = cycle;
    expect(sent(cycle)).toMatchObject({ message: 'cycle' });
  });

  it('keeps the fields of other packages’ errors, as text if they cannot be cloned', () => {
    const fields = { code: 'ECONNREFUSED', errno: -111, address: { port: 6379 }, socket: Symbol('socket') };
    const error = Object.assign(new Error('connect'), fields);
    expect(sent(error)).toMatchObject({ ...fields, socket: 'Symbol(socket)' });
    expect(sent(AbortSignal.abort().reason)).toMatchObject({ code: DOMException.ABORT_ERR });
  });

  it('is an Error of its name if its class is another package’s, and other values stay what they are', () => {
    class OtherError extends Error {
      override readonly name = 'OtherError';
    }
    expect(sent(new OtherError('other'))).toMatchObject({ name: 'OtherError', message: 'other' });
    for (const value of [undefined, null, 'text', 5, { code: 'ERR_LOCK_TIMEOUT' }, [1n]]) {
      expect(sent(value)).toEqual(value);
    }
    expect(sent(AbortSignal.abort().reason)).toMatchObject({ name: 'AbortError' });
  });
});
