// Many requests at once: without recursion, and in a time that grows as their number does.
import { describe, expect, it } from 'vitest';
import type { LockManager } from 'stripelock/web-locks';
import { rejectionOf } from '../support/waiting.js';
import { engines, hold, stateOf } from './managers.js';

const FREE = { held: [], pending: [] };

describe.each(engines)('crowds on the $engine engine', ({ makeManager }) => {
  const manager = makeManager();

  it('3000 queued callbacks run one after the other, in order', async () => {
    const order: number[] = [];
    const held = await hold(manager, 'a');
    const all = Array.from({ length: 3000 }, (_, i) => manager.request('a', () => void order.push(i)));
    held.release();
    await Promise.all(all);
    expect(order).toEqual(Array.from({ length: 3000 }, (_, i) => i));
  });

  it('3000 queued shared requests are granted together', async () => {
    const held = await hold(manager, 'a');
    const all = Array.from({ length: 3000 }, () => hold(manager, 'a', { mode: 'shared' }));
    held.release();
    const readers = await Promise.all(all);
    expect((await stateOf(manager, 'a')).held).toHaveLength(3000);
    for (const reader of readers) reader.release();
    await Promise.all(readers.map(({ ended }) => ended));
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('1000 names are nested', async () => {
    const nest = (depth: number): Promise<number> | number =>
      depth === 1000 ? depth : manager.request(`nested ${depth}`, () => nest(depth + 1));
    expect(await nest(0)).toBe(1000);
    expect(await manager.query()).toEqual(FREE);
  });

  it('1000 aborted requests leave the queue at once', async () => {
    const held = await hold(manager, 'a');
    const controller = new AbortController();
    const all = Array.from({ length: 1000 }, () =>
      rejectionOf(manager.request('a', { signal: controller.signal }, () => undefined)),
    );
    expect((await stateOf(manager, 'a')).pending).toHaveLength(1000);
    controller.abort();
    expect((await stateOf(manager, 'a')).pending).toHaveLength(0);
    expect(new Set(await Promise.all(all))).toEqual(new Set([controller.signal.reason]));
    held.release();
  });

  it('1000 stolen locks in a row reject one by one', async () => {
    const victims = Array.from({ length: 1000 }, () =>
      rejectionOf(manager.request('a', { steal: true }, () => new Promise(() => undefined))),
    );
    const last = await hold(manager, 'a', { steal: true });
    const names = (await Promise.all(victims)).map((error) => (error as Error).name);
    expect(new Set(names)).toEqual(new Set(['AbortError']));
    last.release();
  });

  it('a name costs nothing once it is free', async () => {
    for (let i = 0; i < 10_000; i++) await manager.request(`name ${i}`, () => undefined);
    expect(await manager.query()).toEqual(FREE);
  });
});

describe.each(engines)('a random history on the $engine engine', ({ makeManager }) => {
  it('lets in whom the standard lets in', async () => {
    const manager: LockManager = makeManager();
    const { runHistories } = await import('./histories.js');
    await runHistories(manager);
  });
});
