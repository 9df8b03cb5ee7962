import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { StripedLock, type StripeState } from 'stripelock';
import { Agent } from '../support/agent.js';
import { runProgram } from '../support/programs.js';
import { rejectionOf, thrownBy, until } from '../support/waiting.js';

const FOR_EVER = { timeout: Infinity };

function newLock(trace = false): StripedLock {
  return new StripedLock({ engine: 'native', stripes: 64, name: 'glass', trace });
}

describe('inspect()', () => {
  it('shows to another thread the keys of a callback that never settles', async () => {
    for (const trace of [false, true]) {
      const lock = newLock(trace);
      const agent = await Agent.start(lock);
      await agent.call('hang', ['first', 'second']);
      const states = lock.inspect();
      expect(states).toHaveLength(2);
      for (const { mode, holders } of states) {
        expect(mode).toBe('exclusive');
        expect(holders).toMatchObject([{ threadId: agent.threadId }]);
        if (trace) expect(holders[0]!.keys).toEqual(['first', 'second']);
      }
    }
  });

  it('of a traced lock adds keys, hold time and call site, for every way to acquire', async () => {
    const lock = newLock(true);
    const agent = await Agent.start(lock);
    const ways: Record<string, () => unknown> = {
      acquireSync: () => lock.acquireSync(['key', 7, new Uint8Array([1, 2])]),
      acquire: () => lock.acquire(['key', 7, new Uint8Array([1, 2])]),
      tryAcquire: () => lock.tryAcquire(['key', 7, new Uint8Array([1, 2])]),
      shared: () => lock.acquireSync(['key', 7, new Uint8Array([1, 2])], { mode: 'shared' }),
    };
    for (const way of Object.values(ways)) {
      const before = performance.now();
      const guard = (await way()) as { release(): void };
      const after = performance.now();
      await delay(20);
      for (const inspect of [() => lock.inspect(), () => agent.inspect()]) {
        const least = performance.now() - after;
        const states = await inspect();
        const most = performance.now() - before;
        expect(states).toHaveLength(3);
        for (const { holders } of states) {
          expect(holders).toHaveLength(1);
          const [holder] = holders as [StripeState['holders'][number]];
          expect(holder).toMatchObject({ threadId: 0, keys: ['key', 7, new Uint8Array([1, 2])] });
          expect(holder.heldFor).toBeGreaterThanOrEqual(least - 1);
          expect(holder.heldFor).toBeLessThanOrEqual(most + 1);
          expect(holder.acquiredAt).toMatch(/^at .*seeing\.test\.ts:\d+:\d+/);
        }
      }
      guard.release();
      expect(lock.inspect()).toEqual([]);
    }
    await lock.withLock('key', () => {
      expect(lock.inspect()[0]!.holders[0]!.acquiredAt).toMatch(/seeing\.test\.ts/);
    });
    lock.withLockSync('key', () => {
      expect(lock.inspect()[0]!.holders[0]!.acquiredAt).toMatch(/seeing\.test\.ts/);
    });
    expect(lock.inspect()).toEqual([]);
  });

  it('of a traced lock distinguishes two holds of one thread, and shows what waiters want', async () => {
    const lock = newLock(true);
    const agent = await Agent.start(lock);
    const one = lock.acquireSync('key', { mode: 'shared' });
    const two = lock.acquireSync(['key', 'another'], { mode: 'shared' });
    const theirs = await agent.acquireSync('third');
    const blocked = agent.acquireSync(['key', 'fourth'], FOR_EVER);
    const pending = lock.acquire('third', FOR_EVER);
    await until(() => lock.stats().waiting === 2, 'both wait');
    const at = (key: string): StripeState =>
      lock.inspect().find(({ stripe }) => stripe === lock.stripeOf(key))!;
    const holds = at('key').holders.map(({ keys }) => keys!.join());
    expect(holds.sort()).toEqual(['key', 'key,another']);
    const waitedFor = [lock.stripeOf('key'), lock.stripeOf('fourth')].sort((a, b) => a - b);
    const waiters = lock.inspect().flatMap((state) => state.waiters.map((waiter) => ({ ...state, waiter })));
    expect(waiters.map(({ waiter }) => waiter.keys).toSorted()).toEqual([['key', 'fourth'], ['third']]);
    expect(waitedFor).toContain(waiters.find(({ waiter }) => waiter.threadId === agent.threadId)!.stripe);
    one.release();
    expect(at('key').holders.map(({ keys }) => keys)).toEqual([['key', 'another']]);
    two.release();
    await (await blocked).release();
    await theirs.release();
    (await pending).release();
    expect(lock.inspect()).toEqual([]);
  });

  it('of a traced lock shows only the current holder after the thread of the last one has ended', async () => {
    const lock = newLock(true);
    const agent = await Agent.start(lock);
    await agent.acquireSync('key');
    expect(lock.inspect()[0]!.holders[0]!.keys).toEqual(['key']);
    await agent.worker.terminate();
    const ours = lock.acquireSync('key');
    expect(ours.abandoned).toBe(true);
    expect(lock.inspect().map(({ holders }) => holders)).toMatchObject([[{ threadId: 0 }]]);
    ours.release();
  });
});

describe('an error of a timeout', () => {
  it('of a traced lock also says for how long, and where they acquired it', async () => {
    const lock = newLock(true);
    const agent = await Agent.start(lock);
    await agent.acquireSync('key');
    for (const error of [
      thrownBy(() => lock.acquireSync('key', { timeout: 10 })),
      await rejectionOf(lock.acquire('key', { timeout: 10 })),
    ]) {
      const told = new RegExp(
        `held by thread ${agent.threadId} for [\\d.]+ ms, acquired at .*agent\\.mjs:\\d+`,
      );
      expect((error as Error).message).toMatch(told);
    }
  });
});

describe('a traced guard that is garbage-collected while held', () => {
  for (const engine of ['native', 'javascript']) {
    it(`is released, and a warning says where it was acquired (${engine})`, async () => {
      const { code, stdout, stderr } = await runProgram('lost-guards.mjs', [engine], ['--expose-gc']);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      const { warnings, held, waited, kept } = JSON.parse(stdout) as {
        warnings: { name: string; code: string; message: string }[];
        held: number;
        waited: boolean;
        kept: boolean;
      };
      // One for each lost guard: exclusive, shared, of several keys, acquired in each way. None for a released one.
      expect(warnings.map((warning) => warning.name)).toEqual(new Array(5).fill('StripelockWarning'));
      for (const warning of warnings) {
        expect(warning.code).toBe('STRIPELOCK_GUARD_LOST');
        expect(warning.message).toMatch(/a guard of "lost" was garbage-collected while held/);
        expect(warning.message).toMatch(/acquired at lose\w+ .*lost-guards\.mjs:\d+:\d+/);
      }
      expect({ held, waited, kept }).toEqual({ held: 1, waited: true, kept: true });
    });
  }
});
