// T1 for web locks: whatever fails on the way, no lock stays held, and every promise settles.
import { describe, expect, it } from 'vitest';
import type { LockManager } from 'stripelock/web-locks';
import { ManagerContext } from '../../unbundled/web-locks/context.js';
import { LockManager as UnbundledManager } from '../../unbundled/web-locks/manager.js';
import { JavaScriptWebLockEngine } from '../../unbundled/engine/javascript/web-locks.js';
import { rejectionOf, turns } from '../support/waiting.js';
import { engines, hold, stateOf } from './managers.js';

const FREE = { held: [], pending: [] };
const never = (): never => {
  throw new Error('the callback was called');
};

describe.each(engines)('on the $engine engine', ({ makeManager }) => {
  it.each(['before', 'after'] as const)(
    'a signal that throws %s it has taken a listener leaves nothing in the queue',
    async (when) => {
      const manager = makeManager();
      const error = new Error('no more listeners');
      const target = new EventTarget();
      const signal = {
        aborted: false,
        reason: undefined,
        addEventListener(...args: Parameters<EventTarget['addEventListener']>) {
          if (when === 'after') target.addEventListener(...args);
          throw error;
        },
        removeEventListener: target.removeEventListener.bind(target),
      } as unknown as AbortSignal;
      const held = await hold(manager, 'a');
      const broken = manager.request('a', { signal }, never);
      const next = manager.request('a', () => 'next');
      // Granted in the same tick: no callback may be called, and nothing may stay held.
      held.release();
      expect(await rejectionOf(broken)).toBe(error);
      target.dispatchEvent(new Event('abort'));
      expect(await next).toBe('next');
      expect(await stateOf(manager, 'a')).toEqual(FREE);
    },
  );
});

describe('an engine that fails', () => {
  it.each(['request', 'query'] as const)(
    'in %s rejects the promise, and calls no callback',
    async (method) => {
      const error = new Error('test');
      const locks = new JavaScriptWebLockEngine().open();
      const faulty = Object.assign(Object.create(locks) as typeof locks, {
        [method]: () => {
          throw error;
        },
      });
      const manager = new UnbundledManager(new ManagerContext('', () => faulty)) as unknown as LockManager;
      const promise = method === 'request' ? manager.request('a', never) : manager.query();
      expect(await rejectionOf(promise)).toBe(error);
      await turns();
    },
  );

  it('to open rejects each promise, until it opens', async () => {
    const error = new Error('test');
    let fails = true;
    const context = new ManagerContext('', () => {
      if (fails) throw error;
      return new JavaScriptWebLockEngine().open();
    });
    const manager = new UnbundledManager(context) as unknown as LockManager;
    expect(await rejectionOf(manager.request('a', never))).toBe(error);
    expect(await rejectionOf(manager.query())).toBe(error);
    fails = false;
    expect(await manager.request('a', () => 7)).toBe(7);
  });
});
