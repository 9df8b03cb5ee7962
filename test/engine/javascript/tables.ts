// Several tables on one memory in one thread. They cannot tell that they are not in several threads, and each runs only when
// the test lets it.
import { afterEach, beforeEach, expect } from 'vitest';
import type { AsyncWaiter, Outcome } from '../../../lib/engine/contract/engine.js';
import { createMemory } from '../../../lib/engine/contract/header.js';
import { ENGINE_JAVASCRIPT } from '../../../lib/engine/contract/layout.js';
import { EXCLUSIVE_MODE } from '../../../lib/engine/contract/mode.js';
import { patience } from '../../../lib/engine/javascript/patience.js';
import { JavaScriptTable } from '../../../lib/engine/javascript/table.js';
import { thread } from '../../../lib/engine/javascript/thread.js';
import { until } from '../../support/waiting.js';

/** An acquisition, and what came of it. */
export interface Acquired extends AsyncWaiter {
  readonly table: JavaScriptTable;
  outcome: Outcome | undefined;
}

/** For the tests of a `describe`: no waiter looks for itself, so that nothing depends on it. */
export function withoutLooks(): void {
  const given = { ...patience };
  beforeEach(() => {
    for (const name of Object.keys(patience) as (keyof typeof patience)[]) patience[name] = 3_600_000;
  });
  afterEach(() => void Object.assign(patience, given));
}

/** Tables of a new lock, as different threads have them. */
export function tables(count: number, stripes: number): JavaScriptTable[] {
  const memory = createMemory(ENGINE_JAVASCRIPT, { stripes, exact: false, limit: 1 });
  return Array.from({ length: count }, (_, i) => new JavaScriptTable(memory, stripes, i + 1));
}

/** The request for one stripe, of a caller that holds nothing yet. */
export function requestOf(stripe: number, timeout: number): Parameters<JavaScriptTable['acquireSync']>[0] {
  return { stripes: [stripe], taken: 0, mode: EXCLUSIVE_MODE, timeout, note: undefined };
}

export function acquire(
  table: JavaScriptTable,
  { stripes = [0], mode = EXCLUSIVE_MODE, timeout = Infinity } = {},
  onSettled: () => void = () => undefined,
): Acquired {
  if (mode.counted) table.openShares();
  const acquired: Acquired = {
    table,
    stripes,
    mode,
    taken: 0,
    timeout,
    note: undefined,
    only: stripes.length === 1 ? stripes[0]! : -1,
    outcome: undefined,
    ticket: -1,
    queue: undefined,
    previous: undefined,
    next: undefined,
    since: 0,
    settle(outcome) {
      acquired.outcome = outcome;
      onSettled();
    },
  };
  acquired.outcome = table.acquireAsync(acquired, acquired);
  return acquired;
}

export function release({ table, stripes, mode }: Acquired): void {
  for (const stripe of stripes.toReversed()) table.release(stripe, mode);
}

export async function granted(acquired: Acquired): Promise<void> {
  await until(() => acquired.outcome !== undefined, 'it is granted');
  expect(acquired.outcome).toMatchObject({ status: 'granted', abandoned: false });
}

/**
 * Runs `meanwhile` before each sleep of this thread, as another thread would while it sleeps. Where it returns true, the
 * sleep ends at once. Returns how to end this.
 */
export function whileAsleep(meanwhile: () => boolean): () => void {
  const wait = Atomics.wait.bind(Atomics);
  Atomics.wait = ((...args: Parameters<typeof wait>) => {
    const own = thread.blocked;
    thread.blocked = undefined;
    const wakes = meanwhile();
    thread.blocked = own;
    return wakes ? 'ok' : wait(...args);
  }) as typeof Atomics.wait;
  return () => {
    Atomics.wait = wait;
  };
}
