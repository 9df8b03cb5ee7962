// This file is never run: test/types/types.test.ts lets tsc check it. Lines marked as errors must be errors.

// Values are here for the sake of their types, right and wrong ones alike:
/* eslint @typescript-eslint/no-unused-vars: off, @typescript-eslint/no-unsafe-class-instance-assignment: off */
/* eslint @typescript-eslint/no-unnecessary-type-parameters: off, @typescript-eslint/no-unnecessary-type-assertion: off */
/* eslint @typescript-eslint/no-unsafe-call: off */

import {
  DeadlockError,
  FencingGate,
  Guard,
  KeyedLock,
  Lease,
  LeaseLostError,
  LeaseManager,
  LeaseStoreError,
  LockError,
  LockTimeoutError,
  MemoryLeaseStore,
  StaleTokenError,
  StripedLock,
  type AcquireOptions,
  type AsyncAcquireOptions,
  type BaseLock,
  type Clock,
  type FencingToken,
  type LeaseManagerOptions,
  type LeaseOptions,
  type LeaseStore,
  type LockKey,
  type LockMode,
  type StripedLockHandle,
  type StripedLockOptions,
  type StripedLockStats,
  type StripeState,
  type SyncResult,
} from 'stripelock';
import { FixedClock, leaseStoreContract } from 'stripelock/testing';
import { LockManager, locks, type LockManagerSnapshot, type LockOptions } from 'stripelock/web-locks';
import { describe, expect, it } from 'vitest';
import type * as contract from './contract.js';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
declare function same<A, B>(...wrong: Equal<A, B> extends true ? [] : [never]): void;
/** The package may have more members than the contract, but the contract's members are the same. */
declare function keeps<P, C>(
  ...wrong: Equal<Pick<P, keyof P & keyof C>, C> extends true ? [] : [never]
): void;
declare function is<T>(value: T): void;

declare const lock: StripedLock;

// ── the package has what the contract says ──

is<typeof contract.StripedLock>(StripedLock);
is<contract.StripedLock>(lock);
is<contract.Guard<string, 'shared'>>({} as Guard<string, 'shared'>);
is<abstract new (...args: never[]) => contract.LockError>(LockError);
is<abstract new (...args: never[]) => contract.LockTimeoutError>(LockTimeoutError);
is<abstract new (...args: never[]) => contract.DeadlockError>(DeadlockError);
same<LockKey, contract.LockKey>();
same<LockMode, contract.LockMode>();
keeps<StripedLockStats, contract.StripedLockStats>();
keeps<StripeState, contract.StripeState>();
same<StripedLockHandle, contract.StripedLockHandle>();
keeps<StripedLockOptions, contract.StripedLockOptions>();
keeps<AcquireOptions, contract.AcquireOptions>();
keeps<AsyncAcquireOptions, contract.AsyncAcquireOptions>();
keeps<AsyncAcquireOptions<'shared'>, contract.AsyncAcquireOptions<'shared'>>();

// ── leases ──

is<typeof contract.MemoryLeaseStore>(MemoryLeaseStore);
is<typeof contract.LeaseManager>(LeaseManager);
is<typeof contract.FencingGate>(FencingGate);
is<abstract new (...args: never[]) => contract.LeaseLostError>(LeaseLostError);
is<abstract new (...args: never[]) => contract.LeaseStoreError>(LeaseStoreError);
is<abstract new (...args: never[]) => contract.StaleTokenError>(StaleTokenError);
is<contract.Lease>({} as Lease);
is<contract.LeaseStore>({} as LeaseStore);
is<LeaseStore>({} as contract.LeaseStore);
is<contract.Clock>(new FixedClock(5));
same<FencingToken, contract.FencingToken>();
same<Clock, contract.Clock>();
keeps<LeaseManagerOptions, contract.LeaseManagerOptions>();
keeps<LeaseOptions, contract.LeaseOptions>();
leaseStoreContract({ describe, it, expect }, 'a store', () => new MemoryLeaseStore());

declare const manager: LeaseManager;
const body = manager.withLease('key', (lease) => lease.token);
same<typeof body, Promise<bigint>>();
const bodyIfAvailable = manager.withLease('key', { ifAvailable: true }, async (lease) =>
  Promise.resolve(lease.key),
);
same<typeof bodyIfAvailable, Promise<string | undefined>>();
const tried = manager.tryAcquire('key');
same<typeof tried, Promise<Lease | undefined>>();
// @ts-expect-error: a lease is only ever made by a manager
new Lease();
// @ts-expect-error: a token is a bigint
new FencingGate().admit('key', 5);
export async function underAwaitUsing(): Promise<boolean> {
  await using lease = await manager.acquire('key');
  return lease.held;
}

// ── guards as proof ──

declare function write(row: string, guard: Guard<string, 'exclusive'>): void;
declare function read(row: string, guard: Guard<string>): void;
declare function readNumbered(row: number, guard: Guard<number>): void;

const exclusive = lock.acquireSync('row');
const shared = lock.acquireSync('row', { mode: 'shared' });
write('row', exclusive);
// @ts-expect-error: a shared guard is not a proof for writing
write('row', shared);
// @ts-expect-error: nor is one that may be shared
write('row', lock.acquireSync('row', {} as AcquireOptions));
// @ts-expect-error: nor an attempt that may have failed
write('row', lock.tryAcquire('row'));
// @ts-expect-error: nor a promise of one
write('row', lock.acquire('row'));
// @ts-expect-error: nor a guard of other keys
write('row', lock.acquireSync(5));
// @ts-expect-error: nor something that looks like one
write('row', { keys: ['row'], stripes: [1], mode: 'exclusive', held: true, abandoned: false, token: 1n });
read('row', exclusive);
read('row', shared);
readNumbered(5, lock.acquireSync([5, 6], { mode: 'shared' }));
// @ts-expect-error: a guard is only ever made by a lock
new Guard();

// ── what is inferred ──

same<typeof exclusive, Guard<'row', 'exclusive'>>();
same<typeof shared, Guard<'row', 'shared'>>();
declare const text: string;
declare const keys: readonly (string | number)[];
const some = lock.acquireSync(text);
same<typeof some, Guard<string, 'exclusive'>>();
const several = lock.acquireSync(keys, { timeout: 5 });
same<typeof several.keys, readonly (string | number)[]>();
same<typeof several.mode, 'exclusive'>();
const attempt = lock.tryAcquire(text, { mode: 'shared' });
same<typeof attempt, Guard<string, 'shared'> | undefined>();
const promised = lock.acquire(text, { mode: 'shared', timeout: 5, signal: new AbortController().signal });
same<typeof promised, Promise<Guard<string, 'shared'>>>();
same<typeof some.token, bigint>();
same<typeof some.stripes, readonly number[]>();

const number = lock.withLock(text, (guard) => {
  same<typeof guard, Guard<string, 'exclusive'>>();
  return 5;
});
same<typeof number, Promise<number>>();
const later = lock.withLock(text, { mode: 'shared' }, async (guard) => {
  same<typeof guard, Guard<string, 'shared'>>();
  return Promise.resolve('later');
});
same<typeof later, Promise<string>>();
const now = lock.withLockSync(text, (guard) => {
  same<typeof guard, Guard<string, 'exclusive'>>();
  return guard.held;
});
same<typeof now, boolean>();
const withOptions = lock.withLockSync(text, { timeout: 0, mode: 'shared' }, (guard) => {
  same<typeof guard, Guard<string, 'shared'>>();
  return null;
});
same<typeof withOptions, null>();

// ── using ──

export function underUsing(): boolean {
  using guard = lock.acquireSync('row');
  using _maybe = lock.tryAcquire('other');
  is<Disposable>(guard);
  return guard.held;
}

// ── what is refused ──

// @ts-expect-error: this is not a key
lock.acquireSync({});
// @ts-expect-error: this is not a key
lock.acquireSync(5n);
// @ts-expect-error: this is not a mode
lock.acquireSync('row', { mode: 'both' });
// @ts-expect-error: only what does not block can be aborted
lock.acquireSync('row', { signal: new AbortController().signal });
// @ts-expect-error: one attempt has no timeout
lock.tryAcquire('row', { timeout: 5 });
// @ts-expect-error: this is not an engine
new StripedLock({ engine: 'rust' });
// @ts-expect-error: a handle comes from a lock
StripedLock.from(5);
// @ts-expect-error: what is held cannot be changed from outside
exclusive.held = false;
// @ts-expect-error: nor the lock
lock.timeout = 5;
// @ts-expect-error: nor the list of keys
exclusive.keys.push('other');

// ── functions of withLockSync ──

// @ts-expect-error: the lock is released before this one has done its work
void lock.withLockSync(text, async () => Promise.resolve(5));
// @ts-expect-error: nor with options
void lock.withLockSync(text, { timeout: 5 }, async () => Promise.resolve());
// @ts-expect-error: nor if it may return a promise
lock.withLockSync(text, (guard) => (guard.held ? 5 : Promise.resolve(5)));
export const nothing = (): void => lock.withLockSync(text, () => undefined);
const either = lock.withLockSync(text, (guard) => (guard.held ? guard.stripes : undefined));
same<typeof either, readonly number[] | undefined>();
export function passOn<T>(fn: () => SyncResult<T>): T {
  return lock.withLockSync(text, fn);
}

// ── handles ──

is<StripedLock>(StripedLock.from(lock.handle));
is<Record<string, unknown>>(lock.handle);
// @ts-expect-error: the handle of another class
KeyedLock.from(lock.handle);
// @ts-expect-error: the handle of another class
StripedLock.from(new KeyedLock().handle);
// @ts-expect-error: the handle of another class
LockManager.from(lock.handle);
// @ts-expect-error: the handle of another class
FencingGate.from(new MemoryLeaseStore().handle);
declare const received: { readonly striped: StripedLockHandle; readonly other: object };
StripedLock.from(received.striped);
MemoryLeaseStore.from(received.other);
FencingGate.from(received.other);
LockManager.from(received.other);

// ── modes of locks with permits ──

const permits = new KeyedLock({ limit: 4 });
// @ts-expect-error: a shared mode does not exist
void permits.acquire(text, { mode: 'shared' });
// @ts-expect-error: a shared mode does not exist
permits.acquireSync(text, { mode: 'shared' });
// @ts-expect-error: a shared mode does not exist
permits.tryAcquire(text, { mode: 'shared' });
// @ts-expect-error: a shared mode does not exist
void permits.withLock(text, { mode: 'shared' }, () => 5);
// @ts-expect-error: a shared mode does not exist
permits.withLockSync(text, { mode: 'shared' }, () => 5);
same<ReturnType<typeof permits.acquireSync<string>>, Guard<string, 'exclusive'>>();
permits.acquireSync(text, { mode: 'exclusive', timeout: 5 });
for (const limit of [1, 4]) new KeyedLock({ limit }).acquireSync(text, { mode: 'shared' });
for (const keyed of [new KeyedLock(), new KeyedLock({ capacity: 5 }), new KeyedLock({ limit: 1 })]) {
  same<ReturnType<typeof keyed.acquireSync<string, 'shared'>>, Guard<string, 'shared'>>();
  keyed.withLockSync(text, { mode: 'shared' }, (guard) => is<Guard<string, 'shared'>>(guard));
}
is<KeyedLock>(permits);
is<BaseLock>(permits);
is<BaseLock[]>([permits, lock, KeyedLock.from(permits.handle)]);

// ── web locks ──

is<LockManager>(locks);
is<Promise<number>>(locks.request('a', (lock) => lock!.name.length));
is<Promise<number>>(locks.request('a', async () => 1));
is<Promise<'a'>>(locks.request('a', { mode: 'shared', timeout: 5 }, () => 'a' as const));
is<Promise<LockManagerSnapshot>>(locks.query());
is<LockManager>(LockManager.from(new LockManager({ name: 'own' }).handle));
is<LockOptions>({ mode: 'exclusive', ifAvailable: true, steal: false, signal: new AbortController().signal });
// @ts-expect-error the callback is missing
void locks.request('a');
// @ts-expect-error no such mode exists
void locks.request('a', { mode: 'write' }, () => undefined);
// @ts-expect-error a lock's name cannot be changed
void locks.request('a', (lock) => (lock!.name = 'b'));
