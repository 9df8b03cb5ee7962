// Beyond the standard: timeouts, and the channel of diagnostics.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { threadId } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import type { LockOptions, WebLockMessage } from 'stripelock/web-locks';
import { messagesOf } from '../support/channels.js';
import { rejectionOf, turns } from '../support/waiting.js';
import { engines, hold, stateOf } from './managers.js';

const FREE = { held: [], pending: [] };
const never = (): never => {
  throw new Error('the callback was called');
};

describe.each(engines)('timeout on the $engine engine', ({ makeManager }) => {
  const manager = makeManager();

  it('rejects with a TimeoutError, and lets those behind it in', async () => {
    const reader = await hold(manager, 'a', { mode: 'shared' });
    const start = performance.now();
    const late = manager.request('a', { timeout: 20 }, never);
    const behind = hold(manager, 'a', { mode: 'shared' });
    const error = await rejectionOf(late);
    // Timers may fire a millisecond early.
    expect(performance.now() - start).toBeGreaterThan(18);
    expect(error).toBeInstanceOf(DOMException);
    expect(error).toMatchObject({
      name: 'TimeoutError',
      message: expect.stringContaining('20 ms') as string,
    });
    expect(await stateOf(manager, 'a')).toEqual({ held: ['shared', 'shared'], pending: [] });
    reader.release();
    (await behind).release();
  });

  it('of 0 makes one attempt', async () => {
    expect(await manager.request('a', { timeout: 0 }, (lock) => lock?.name)).toBe('a');
    const held = await hold(manager, 'a');
    expect(await rejectionOf(manager.request('a', { timeout: 0 }, never))).toMatchObject({
      name: 'TimeoutError',
    });
    expect(await stateOf(manager, 'a')).toEqual({ held: ['exclusive'], pending: [] });
    held.release();
  });

  it('ends with the wait: a callback may take longer', async () => {
    const held = await hold(manager, 'a');
    const waits = manager.request('a', { timeout: 10_000 }, async () => {
      await turns();
      return 'done';
    });
    const granted = await Promise.resolve(
      manager.request('b', { timeout: 1 }, () => new Promise((resolve) => setTimeout(resolve, 30, 'long'))),
    );
    expect(granted).toBe('long');
    held.release();
    expect(await waits).toBe('done');
  });

  it('and a signal: the first one decides', async () => {
    const held = await hold(manager, 'a');
    const controller = new AbortController();
    const { signal } = controller;
    expect(await rejectionOf(manager.request('a', { timeout: 5, signal }, never))).toMatchObject({
      name: 'TimeoutError',
    });
    const aborted = manager.request('a', { timeout: 60_000, signal }, never);
    controller.abort(new Error('aborted'));
    expect(await rejectionOf(aborted)).toBe(signal.reason);
    held.release();
    await held.ended;
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('of Infinity never ends the wait', async () => {
    const held = await hold(manager, 'a');
    const waits = manager.request(
      'a',
      { timeout: Infinity, signal: new AbortController().signal },
      () => 'granted',
    );
    await turns();
    held.release();
    expect(await waits).toBe('granted');
  });

  it.each([
    ['5', TypeError],
    [null, TypeError],
    [-1, RangeError],
    [NaN, RangeError],
  ])('of %j is refused', async (timeout, kind) => {
    const promise = manager.request('a', { timeout } as LockOptions, never);
    expect(await rejectionOf(promise)).toBeInstanceOf(kind);
  });

  it('of many requests, each in its time and in the order of their ends', async () => {
    const held = await hold(manager, 'a');
    interface Late {
      readonly timeout: number;
      /** Its time ends between these two. */
      readonly from: number;
      to: number;
    }
    const ended: Late[] = [];
    const all = [40, 10, 30, 20].map((timeout) => {
      const late: Late = { timeout, from: performance.now() + timeout, to: 0 };
      const request = manager.request('a', { timeout }, never).catch(() => void ended.push(late));
      late.to = performance.now() + timeout;
      return request;
    });
    await Promise.all(all);
    expect(ended).toHaveLength(4);
    for (const [i, late] of ended.slice(1).entries()) {
      expect(ended[i]!.from, `${late.timeout} after ${ended[i]!.timeout}`).toBeLessThan(late.to);
    }
    held.release();
  });

  it('that ends as the lock is granted, either way leaves nothing held', async () => {
    for (let round = 0; round < 50; round++) {
      const held = await hold(manager, 'a');
      const waits = manager.request('a', { timeout: 1 }, () => 'granted').catch((error: unknown) => error);
      // Blocks the event loop past the deadline: the grant and the timer are due at the same time.
      const end = performance.now() + 2;
      while (performance.now() < end);
      held.release();
      const outcome = await waits;
      if (outcome !== 'granted') expect(outcome).toMatchObject({ name: 'TimeoutError' });
      expect(await stateOf(manager, 'a')).toEqual(FREE);
    }
  });
});

describe.each(engines)('the channel stripelock:web-locks on the $engine engine', ({ makeManager }) => {
  const CHANNEL = 'stripelock:web-locks';

  it('says what became of each request', async () => {
    const manager = makeManager('of the test');
    const heard = messagesOf<WebLockMessage>(CHANNEL);
    const told = (): string[] => heard.splice(0).map(({ event, mode }) => `${event} ${mode}`);
    await manager.request('a', () => 1);
    await manager.request('a', { mode: 'shared' }, async () => 1);
    expect(told()).toEqual(['granted exclusive', 'released exclusive', 'granted shared', 'released shared']);

    const held = await hold(manager, 'a');
    await manager.request('a', { ifAvailable: true }, () => 1);
    await rejectionOf(manager.request('a', { timeout: 0 }, never));
    await rejectionOf(manager.request('a', { timeout: 1 }, never));
    const controller = new AbortController();
    const aborted = manager.request('a', { signal: controller.signal }, never);
    controller.abort();
    await rejectionOf(aborted);
    const thief = await hold(manager, 'a', { steal: true });
    await rejectionOf(held.ended);
    thief.release();
    await thief.ended;
    expect(
      told()
        .map((text) => text.split(' ')[0])
        .toSorted(),
    ).toEqual(
      ['granted', 'unavailable', 'timeout', 'timeout', 'aborted', 'stolen', 'granted', 'released'].toSorted(),
    );

    const quick = new AbortController();
    const atOnce = manager.request('a', { signal: quick.signal }, never);
    quick.abort();
    await rejectionOf(atOnce);
    const victim = rejectionOf(manager.request('a', () => 1));
    await manager.request('a', { steal: true }, () => 1);
    await victim;
    expect(told().map((text) => text.split(' ')[0])).toEqual([
      'aborted',
      ...['granted', 'stolen', 'granted', 'released'],
    ]);
  });

  it('names the manager, the name and the thread, and says how long it took', async () => {
    const manager = makeManager('of the test');
    const heard = messagesOf<WebLockMessage>(CHANNEL);
    const held = await hold(manager, 'a');
    const next = manager.request('a', () => new Promise((resolve) => setTimeout(resolve, 20)));
    setTimeout(() => held.release(), 20);
    await next;
    expect(heard[0]).toEqual({
      event: 'granted',
      manager: 'of the test',
      name: 'a',
      mode: 'exclusive',
      elapsed: expect.any(Number) as number,
      threadId,
    });
    // Timers may fire a millisecond early.
    expect(heard[2]).toMatchObject({ event: 'granted' });
    expect(heard[2]!.elapsed).toBeGreaterThan(18);
    expect(heard[3]).toMatchObject({ event: 'released' });
    expect(heard[3]!.elapsed).toBeGreaterThan(18);
  });

  it('has no elapsed time if it had no subscriber at the beginning', async () => {
    const manager = makeManager();
    const held = await hold(manager, 'a');
    const heard: WebLockMessage[] = [];
    const hear = (message: unknown): void => void heard.push(message as WebLockMessage);
    subscribe(CHANNEL, hear);
    held.release();
    await held.ended;
    unsubscribe(CHANNEL, hear);
    await manager.request('a', () => 1);
    expect(heard).toMatchObject([{ event: 'released', elapsed: undefined }]);
  });
});
