import { once } from 'node:events';
import { threadId } from 'node:worker_threads';
import { beforeEach, describe, expect, it } from 'vitest';
import { EXCLUSIVE_MODE, SHARED_MODE } from '../../../unbundled/engine/contract/mode.js';
import type { NamedLocks } from '../../../unbundled/engine/contract/named-locks.js';
import { nativeNamedEngine } from '../../../unbundled/engine/select.js';
import { seedFor } from '../../support/seed.js';
import { startThread } from '../../support/threads.js';
import { turns, until } from '../../support/waiting.js';
import { NamedAgent } from './named-agent.js';
import { Requester } from './named-requester.js';

/** Milliseconds after a thread's end in which its waiters must continue. */
const GO_ON = 100;

const engine = nativeNamedEngine()!;
let locks: NamedLocks;

beforeEach(() => {
  locks = engine.open();
});

function list(): string[] {
  const { held, pending } = locks.query();
  return [...held, ...pending].map(({ name, mode, threadId: id }) => `${name} ${mode.name} ${id}`);
}

describe('the named locks of several threads', () => {
  it('are granted in the order of arrival, whatever the thread', async () => {
    const one = new NamedAgent(locks.number);
    const two = new NamedAgent(locks.number);
    const own = new Requester();
    expect(await one.request('1', 'a')).toBe('held');
    expect(await two.request('2', 'a')).toBe('pending');
    expect(locks.request('a', SHARED_MODE, 'wait', own)).toBe('pending');
    expect(await one.request('3', 'a', { mode: 'shared' })).toBe('pending');
    expect(await two.request('4', 'a')).toBe('pending');
    expect(list()).toEqual([
      `a exclusive ${one.threadId}`,
      `a exclusive ${two.threadId}`,
      `a shared ${threadId}`,
      `a shared ${one.threadId}`,
      `a exclusive ${two.threadId}`,
    ]);
    await one.release('1');
    await two.awaitTold('2 granted');
    expect(own.told).toEqual([]);
    await two.release('2');
    await one.awaitTold('3 granted');
    await until(() => own.told.length > 0, 'the reader of this thread is told');
    locks.release(own);
    await one.release('3');
    await two.awaitTold('2 granted', '4 granted');
    expect([one.told, two.told, own.told]).toEqual([['3 granted'], ['2 granted', '4 granted'], ['granted']]);
  });

  it('are stolen from another thread, which may release late', async () => {
    const agent = new NamedAgent(locks.number);
    await agent.request('1', 'a', { mode: 'shared' });
    await agent.request('2', 'a', { mode: 'shared' });
    const thief = new Requester();
    expect(locks.request('a', EXCLUSIVE_MODE, 'steal', thief)).toBe('held');
    await agent.awaitTold('1 stolen', '2 stolen');
    await agent.release('1');
    expect(list()).toEqual([`a exclusive ${threadId}`]);
    expect(await agent.request('3', 'a', { how: 'steal' })).toBe('held');
    await until(() => thief.told.length > 0, 'this thread is told');
    locks.release(thief);
    expect(list()).toEqual([`a exclusive ${agent.threadId}`]);
    expect(thief.told).toEqual(['stolen']);
    expect(agent.told).toEqual(['1 stolen', '2 stolen']);
  });

  it('go on when a grant is cancelled, and no event loop hears of it', async () => {
    const agent = new NamedAgent(locks.number);
    const held = new Requester();
    locks.request('a', EXCLUSIVE_MODE, 'wait', held);
    const waiting = new Requester();
    expect(locks.request('a', EXCLUSIVE_MODE, 'wait', waiting)).toBe('pending');
    expect(await agent.request('1', 'a')).toBe('pending');
    expect(locks.cancel(waiting)).toBe(true);
    locks.release(held);
    await agent.awaitTold('1 granted');
    await turns();
    expect(waiting.told).toEqual([]);
  });
});

describe.each(['return', 'throw', 'reject', 'exit', 'terminate'] as const)(
  'when a thread with named locks ends by %s',
  (how) => {
    it('its waiters go on, and what it asked for is dropped', async () => {
      const dying = new NamedAgent(locks.number);
      const other = new NamedAgent(locks.number);
      const own = new Requester();
      await dying.request('1', 'a');
      await dying.request('2', 'b', { mode: 'shared' });
      await other.request('3', 'c');
      // A pending request would keep it alive.
      if (how !== 'return') {
        await dying.request('4', 'c');
        await dying.request('5', 'a');
      }
      await other.request('6', 'a');
      await other.request('7', 'c');
      expect(locks.request('b', EXCLUSIVE_MODE, 'wait', own)).toBe('pending');
      const ended = await dying.end(how);
      await other.awaitTold('6 granted');
      await until(() => own.told.length > 0, 'the waiter of this thread is told');
      expect(other.at[0]! - ended).toBeLessThan(GO_ON);
      expect(list().sort()).toEqual(
        [
          `a exclusive ${other.threadId}`,
          `b exclusive ${threadId}`,
          `c exclusive ${other.threadId}`,
          `c exclusive ${other.threadId}`,
        ].sort(),
      );
      await other.release('3');
      await other.awaitTold('6 granted', '7 granted');
      locks.release(own);
    });
  },
);

describe('when a thread is terminated in the middle of a computation', () => {
  it('its locks go on, and a theft from it is not told', async () => {
    const dying = new NamedAgent(locks.number);
    await dying.request('1', 'a');
    await dying.request('2', 'b');
    await dying.compute();
    const waiter = new Requester();
    locks.request('a', EXCLUSIVE_MODE, 'wait', waiter);
    const thief = new Requester();
    expect(locks.request('b', EXCLUSIVE_MODE, 'steal', thief)).toBe('held');
    expect(waiter.told).toEqual([]);
    await dying.end('terminate');
    await until(() => waiter.told.length > 0, 'the waiter is told');
    expect(list().sort()).toEqual([`a exclusive ${threadId}`, `b exclusive ${threadId}`]);
    locks.release(waiter);
    locks.release(thief);
    expect(list()).toEqual([]);
  });

  it('a grant that it never took goes to the next', async () => {
    const dying = new NamedAgent(locks.number);
    const held = new Requester();
    locks.request('a', EXCLUSIVE_MODE, 'wait', held);
    await dying.request('1', 'a');
    await dying.compute();
    const waiter = new Requester();
    locks.request('a', EXCLUSIVE_MODE, 'wait', waiter);
    locks.release(held);
    expect(list()).toEqual([`a exclusive ${dying.threadId}`, `a exclusive ${threadId}`]);
    await dying.end('terminate');
    await until(() => waiter.told.length > 0, 'the waiter is told');
    locks.release(waiter);
  });
});

it('named locks stay whole when threads are terminated between any two steps', async () => {
  const seed = seedFor('terminated users of named locks');
  const names = 4;
  for (let round = 0; round < 10; round++) {
    const workers = [0, 1, 2].map((i) =>
      startThread('named-churner.mjs', { manager: locks.number, names, seed: seed + 3 * round + i }),
    );
    await Promise.all(workers.map((worker) => once(worker, 'message')));
    // Its turn comes though others steal, and die, before.
    const own = Array.from({ length: names }, (_, i) => {
      const requester = new Requester();
      const status = locks.request(`name ${i}`, EXCLUSIVE_MODE, 'wait', requester);
      return { requester, status };
    });
    await turns(1 + (round % 5));
    await Promise.all(workers.map((worker) => worker.terminate()));
    await until(
      () => own.every(({ requester, status }) => status === 'held' || requester.told.length > 0),
      'this thread is told',
    );
    const { held, pending } = locks.query();
    expect([...held, ...pending].filter((entry) => entry.threadId !== threadId)).toEqual([]);
    expect(pending).toEqual([]);
    for (const { requester } of own) locks.release(requester);
    expect(list()).toEqual([]);
  }
});
