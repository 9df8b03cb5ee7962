import { expect } from 'vitest';
import type { StripedLock } from 'stripelock';
import { rejectionOf, thrownBy } from './waiting.js';

/** The expected error for a refused argument. */
export interface Refusal {
  readonly name: string;
  readonly code: string;
}
export const WRONG_TYPE: Refusal = { name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' };
export const WRONG_VALUE: Refusal = { name: 'RangeError', code: 'ERR_OUT_OF_RANGE' };

/** The methods of a lock, without their types. */
type Untyped = Record<string, (...args: unknown[]) => unknown>;
export const untyped = (lock: StripedLock): Untyped => lock as unknown as Untyped;

export const ACQUIRING = ['acquire', 'acquireSync', 'tryAcquire', 'withLock', 'withLockSync'] as const;
export type Acquiring = (typeof ACQUIRING)[number];
export const isAsync = (method: string): boolean => method === 'acquire' || method === 'withLock';

/**
 * The error with which a call of an acquiring method fails. A method that returns a promise must reject it instead of
 * throwing.
 */
export async function failureOf(
  lock: StripedLock,
  method: Acquiring,
  keys: unknown,
  options?: unknown,
): Promise<unknown> {
  const args = method.startsWith('withLock') ? [keys, options, () => 'ran'] : [keys, options];
  const call = (): unknown => untyped(lock)[method]!(...args);
  return isAsync(method) ? rejectionOf(call() as Promise<unknown>) : thrownBy(call);
}

/** Checks that an error is the expected refusal, and that its message is short enough to read. */
export function expectRefused(error: unknown, expected: Refusal): void {
  expect(error).toMatchObject(expected);
  expect((error as Error).message.length).toBeLessThan(300);
}

/** Stands in for a function that must not be called. */
export function throwing(): never {
  throw new Error('a trap of the value ran');
}

/** A proxy handler that throws on every operation. */
export const EVERY_TRAP = Object.fromEntries(
  Object.getOwnPropertyNames(Reflect).map((trap) => [trap, throwing]),
) as ProxyHandler<object>;

export function revoked(target: object): object {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}
