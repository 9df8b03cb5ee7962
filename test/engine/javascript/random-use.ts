import { setTimeout as delay } from 'node:timers/promises';
import type { Mode } from '../../../lib/engine/contract/mode.js';
import type { JavaScriptTable } from '../../../lib/engine/javascript/table.js';
import { until } from '../../support/waiting.js';
import { below } from '../../workers/random.mjs';
import { acquire, release, requestOf, type Acquired } from './tables.js';

export interface RandomUse {
  readonly random: () => number;
  /** Of one memory, a table for each thread. */
  readonly tables: readonly JavaScriptTable[];
  readonly stripes: number;
  /** Of the next async acquisition. */
  readonly mode: () => Mode;
  /** Of acquisitions that block. */
  readonly blocking: Mode;
  /** An async acquisition has got the stripe. */
  readonly took: (stripe: number, mode: Mode) => void;
  /** It is about to release it. */
  readonly gaveBack: (stripe: number, mode: Mode) => void;
}

/** Takes, waits, gives up and blocks in random order, and ends when all who waited got what they asked for. */
export async function useAtRandom(use: RandomUse): Promise<void> {
  const { random, tables, stripes } = use;
  const anyOf = <T>(list: readonly T[]): T => list[below(random, list.length)]!;
  const held: Acquired[] = [];
  let pending: Acquired[] = [];
  const took = (acquired: Acquired): void => {
    held.push(acquired);
    for (const stripe of acquired.stripes) use.took(stripe, acquired.mode);
  };
  const giveBack = (acquired: Acquired): void => {
    held.splice(held.indexOf(acquired), 1);
    for (const stripe of acquired.stripes) use.gaveBack(stripe, acquired.mode);
    release(acquired);
  };
  const start = (): void => {
    const wanted = Array.from({ length: stripes }, (_, stripe) => stripe).filter(() => random() < 0.6);
    if (wanted.length === 0) wanted.push(below(random, stripes));
    const timeout = random() < 0.1 ? below(random, 4) : Infinity;
    const acquired = acquire(anyOf(tables), { stripes: wanted, mode: use.mode(), timeout }, () => {
      pending = pending.filter((other) => other !== acquired);
      if (acquired.outcome?.status === 'granted') took(acquired);
    });
    if (acquired.outcome === undefined) pending.push(acquired);
    else if (acquired.outcome.status === 'granted') took(acquired);
  };
  for (let step = 0; step < 6000; step++) {
    const what = random();
    if (what < 0.4 && pending.length < 20) start();
    else if (what < 0.8 && held.length > 0) giveBack(anyOf(held));
    else if (what < 0.85 && pending.length > 0) {
      const acquired = anyOf(pending);
      if (acquired.table.cancel(acquired)) pending = pending.filter((other) => other !== acquired);
    } else if (what < 0.86) {
      // A thread that blocks: what its async acquisitions were given goes back, and comes again.
      const table = anyOf(tables);
      if (use.blocking.counted) table.openShares();
      const { status } = table.acquireSync({ ...requestOf(0, 0.5), mode: use.blocking });
      if (status === 'granted') table.release(0, use.blocking);
    } else if (what > 0.95) await delay(0);
  }
  while (held.length > 0 || pending.length > 0) {
    if (held.length > 0) giveBack(anyOf(held));
    else await until(() => held.length > 0 || pending.length === 0, 'one of those who wait is granted');
  }
}
