// T1 for web locks: whatever fails on the way, no lock stays held, and every promise settles.
import { describe, expect, it } from 'vitest';
import type { LockManager } from 'stripelock/web-locks';
import { ManagerContext } from '../../unbundled/web-locks/context.js';
import { LockManager as UnbundledManager } from '../../unbundled/web-locks/manager.js';
import { JavaScriptNamedEngine } from '../../unbundled/engine/javascript/named-locks.js';
import { rejectionOf, turns } from '../support/waiting.js';
import { engines, hold, stateOf } from './managers.js';

const FREE = { held: [], pending: [] };
/** Of a small function: from no room on the stack to enough for a request, even if it must be compiled. */
const FRAMES = 500;
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
      // Granted in the same tick: nobody may be called, and nothing may stay held.
      held.release();
      expect(await rejectionOf(broken)).toBe(error);
      target.dispatchEvent(new Event('abort'));
      expect(await next).toBe('next');
      expect(await stateOf(manager, 'a')).toEqual(FREE);
    },
  );

  it('a request at the limit of the stack is made, or leaves nothing behind', async () => {
    const manager = makeManager();
    await manager.request('a', () => undefined);
    let calls = 0;
    const promises: Promise<unknown>[] = [];
    let thrown = 0;
    const request = (name: string, options: object): void => {
      try {
        promises.push(
          manager.request(name, options, () => {
            calls++;
          }),
        );
      } catch {
        // It was not made, and there is no room for a promise either.
        thrown++;
      }
    };
    const { signal } = new AbortController();
    const kinds = [
      {},
      { mode: 'shared', signal },
      { steal: true },
      { ifAvailable: true },
      { timeout: 60_000 },
    ];
    const descend = (): number => {
      let room: number;
      try {
        room = descend();
      } catch {
        return 0;
      }
      // On the way back, at each of the last frames: from no room at all to enough.
      if (room < FRAMES) {
        try {
          request(room % 3 === 0 ? 'a' : `name ${room}`, kinds[room % kinds.length]!);
        } catch {
          // No room for that either.
        }
      }
      return room + 1;
    };
    for (let round = 0; round < 3; round++) descend();
    const settled = await Promise.allSettled(promises);
    const reasons = settled.flatMap((result) =>
      result.status === 'rejected' ? [result.reason as Error] : [],
    );
    console.log(`${calls} called, ${reasons.length} rejected, ${thrown} thrown`);
    for (const { name } of reasons) expect(['RangeError', 'AbortError']).toContain(name);
    expect(reasons.filter(({ name }) => name === 'RangeError').length + thrown).toBeGreaterThan(0);
    expect(calls).toBeGreaterThan(100);
    expect(await manager.query()).toEqual(FREE);
  });
});

describe('an engine that fails', () => {
  it.each(['request', 'query'] as const)('in %s rejects the promise, and calls nobody', async (method) => {
    const error = new Error('test');
    const locks = new JavaScriptNamedEngine().open();
    const faulty = Object.assign(Object.create(locks) as typeof locks, {
      [method]: () => {
        throw error;
      },
    });
    const manager = new UnbundledManager(new ManagerContext('', () => faulty)) as unknown as LockManager;
    const promise = method === 'request' ? manager.request('a', never) : manager.query();
    expect(await rejectionOf(promise)).toBe(error);
    await turns();
  });

  it('to open rejects each promise, until it opens', async () => {
    const error = new Error('test');
    let fails = true;
    const context = new ManagerContext('', () => {
      if (fails) throw error;
      return new JavaScriptNamedEngine().open();
    });
    const manager = new UnbundledManager(context) as unknown as LockManager;
    expect(await rejectionOf(manager.request('a', never))).toBe(error);
    expect(await rejectionOf(manager.query())).toBe(error);
    fails = false;
    expect(await manager.request('a', () => 7)).toBe(7);
  });
});
