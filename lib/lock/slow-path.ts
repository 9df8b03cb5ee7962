import { defer } from '../common/host.js';
import type { Outcome } from '../engine/contract/engine.js';
import { Acquisition, recordHeld } from './acquisition.js';
import { goOn, modeOf, stripesOf, takenBy, type Guard } from './guard.js';
import type { LockContext } from './terms.js';

/*
 * If the fast path did not take all stripes of a guard, the engine continues here. If one of these functions throws,
 * the engine holds nothing for the guard, and the guard has what it had, or nothing (keeps T1).
 */

/** One of {@link block}, {@link wait} and {@link attempt}: what a public method does if the fast path did not take all. */
export type GoOn<G extends Guard, R> = (
  lock: LockContext,
  guard: G,
  timeout: number,
  signal: AbortSignal | undefined,
) => R;

/** Blocks this thread until the guard holds its stripes. Once it does, it is returned, whatever else fails. */
export function block<G extends Guard>(lock: LockContext, guard: G, timeout: number): G {
  const acquisition = Acquisition.of(lock, guard, timeout, undefined);
  const outcome = goOn(guard, acquisition);
  if (outcome.status !== 'granted') throw acquisition.failure(outcome);
  try {
    acquisition.tellGranted(outcome.waited);
  } catch {
    defer(() => acquisition.tellGranted(outcome.waited), undefined);
  }
  return guard;
}

/** Waits on the event loop. */
export function wait<G extends Guard>(
  lock: LockContext,
  guard: G,
  timeout: number,
  signal: AbortSignal | undefined,
): Promise<G> {
  const pending = Acquisition.of(lock, guard, timeout, signal);
  const promise = pending.promise();
  let outcome: Outcome | undefined;
  try {
    outcome = goOn(guard, pending, pending);
  } catch (error) {
    defer(() => pending.forgetSignal(), undefined);
    throw error;
  }
  if (outcome === undefined) return promise;
  const decided = outcome;
  try {
    pending.settle(decided);
  } catch {
    defer(() => pending.settle(decided), undefined);
  }
  return promise;
}

/** One attempt of the engine. Undefined: the guard has nothing. */
export function attempt<G extends Guard>(lock: LockContext, guard: G): G | undefined {
  const stripes = stripesOf(guard);
  const request = { stripes, taken: takenBy(guard), mode: modeOf(guard), timeout: 0, note: undefined };
  if (goOn(guard, request).status !== 'granted') return undefined;
  if (lock.trace) showHeld(lock, guard);
  return guard;
}

/** {@link recordHeld}, now or, after a stack overflow, from the microtask queue. */
export function showHeld(lock: LockContext, guard: Guard): void {
  try {
    recordHeld(lock, guard);
  } catch {
    defer(() => recordHeld(lock, guard), undefined);
  }
}
