// "Abort a request", and the option signal.
import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { rejectionOf, turns, watch } from '../support/waiting.js';
import { engines, hold, stateOf } from './managers.js';

const never = (): never => {
  throw new Error('the callback was called');
};
const FREE = { held: [], pending: [] };

describe.each(engines)('signal on the $engine engine', ({ makeManager }) => {
  const manager = makeManager();

  it.each([undefined, 'my dog ate it', new Error('test'), null])(
    'that is already aborted rejects with its reason: %s',
    async (reason) => {
      const signal = AbortSignal.abort(reason);
      const error = await rejectionOf(manager.request('a', { signal }, never));
      expect(error).toBe(signal.reason);
      if (reason === undefined) expect(error).toMatchObject({ name: 'AbortError' });
      expect(await stateOf(manager, 'a')).toEqual(FREE);
    },
  );

  it('takes back a request that waits, and lets those behind it in', async () => {
    const reader = await hold(manager, 'a', { mode: 'shared' });
    const controller = new AbortController();
    const { signal } = controller;
    const writer = watch(manager.request('a', { signal }, never));
    const behind = hold(manager, 'a', { mode: 'shared' });
    await turns();
    expect(await stateOf(manager, 'a')).toEqual({ held: ['shared'], pending: ['exclusive', 'shared'] });
    const reason = new Error('test');
    controller.abort(reason);
    expect(await stateOf(manager, 'a')).toEqual({ held: ['shared', 'shared'], pending: [] });
    expect(await rejectionOf(writer.promise)).toBe(reason);
    reader.release();
    (await behind).release();
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  });

  it('that is aborted in the tick of the request wins over the grant', async () => {
    const controller = new AbortController();
    const aborted = manager.request('a', { signal: controller.signal }, never);
    const next = manager.request('a', () => 'next');
    controller.abort();
    expect(await rejectionOf(aborted)).toBe(controller.signal.reason);
    expect(await next).toBe('next');
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });

  it('that is aborted in the tick of a later grant wins as well', async () => {
    for (const order of ['before the release', 'after the release'] as const) {
      const controller = new AbortController();
      const held = await hold(manager, 'a');
      const aborted = manager.request('a', { signal: controller.signal }, never);
      const next = manager.request('a', () => 'next');
      aborted.catch(() => undefined);
      if (order === 'before the release') controller.abort();
      held.release();
      // The release is a microtask away, and so is the grant.
      await held.ended;
      if (order === 'after the release') controller.abort();
      const result = await rejectionOf(aborted).catch(() => 'it ran');
      expect(result, order).toBe(controller.signal.reason);
      expect(await next).toBe('next');
      expect(await stateOf(manager, 'a')).toEqual(FREE);
    }
  });

  it('does nothing once the callback runs', async () => {
    const controller = new AbortController();
    const held = await hold<string>(manager, 'a', { signal: controller.signal });
    controller.abort();
    await turns();
    expect(await stateOf(manager, 'a')).toEqual({ held: ['exclusive'], pending: [] });
    held.release('resolved');
    expect(await held.ended).toBe('resolved');
    const late = new AbortController();
    const waited = await hold(manager, 'a');
    const then = hold<string>(manager, 'a', { signal: late.signal });
    waited.release();
    const granted = await then;
    granted.release('resolved');
    late.abort();
    expect(await granted.ended).toBe('resolved');
  });

  it('gets no listener for a request that is granted at once, and one for any number that wait', async () => {
    const { signal } = new AbortController();
    const listeners = (): number => getEventListeners(signal, 'abort').length;
    const held = hold(manager, 'a', { signal });
    expect(listeners()).toBe(0);
    const waiting = Array.from({ length: 50 }, () => manager.request('a', { signal }, listeners));
    expect(listeners()).toBe(1);
    (await held).release();
    const seen = await Promise.all(waiting);
    expect(seen[0]).toBe(1);
    expect(seen.at(-1)).toBe(0);
    expect(listeners()).toBe(0);
  });

  it('of another realm is taken too', async () => {
    // As that of a test runner's environment: it has the members, and is no instance of this realm's class.
    const target = new EventTarget();
    const signal = {
      aborted: false,
      reason: undefined as unknown,
      addEventListener: target.addEventListener.bind(target),
      removeEventListener: target.removeEventListener.bind(target),
    };
    const held = await hold(manager, 'a');
    const waits = manager.request('a', { signal: signal as unknown as AbortSignal }, never);
    signal.aborted = true;
    signal.reason = new Error('test');
    target.dispatchEvent(new Event('abort'));
    expect(await rejectionOf(waits)).toBe(signal.reason);
    held.release();
  });

  it('of AbortSignal.timeout rejects with a TimeoutError', async () => {
    const held = await hold(manager, 'a');
    const waits = manager.request('a', { signal: AbortSignal.timeout(5) }, never);
    expect(await rejectionOf(waits)).toMatchObject({ name: 'TimeoutError' });
    held.release();
    await held.ended;
    expect(await stateOf(manager, 'a')).toEqual(FREE);
  });
});
