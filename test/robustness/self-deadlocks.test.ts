import { describe, expect, it } from 'vitest';
import { DeadlockError, LockError, StripedLock, type LockMode } from 'stripelock';
import { Agent } from '../support/agent.js';
import { newLock } from '../support/deadlocks.js';
import { keysApart, keysTogether } from '../support/keys.js';
import { expectPrompt } from '../support/prompt.js';
import { thrownBy, until, watch } from '../support/waiting.js';

/** Milliseconds. The thread must not even go to sleep: a sleep takes 5 ms at least. */
const AT_ONCE = 4;

describe('a blocking wait for a stripe of its own thread', () => {
  const apart = keysApart(newLock(), 3) as [string, string, string];
  const together = keysTogether(newLock(), 2) as [string, string];
  type Keys = string | readonly string[];
  const both: LockMode[] = ['exclusive', 'shared'];
  const cases: { what: string; held: Keys; mode: LockMode; wanted: Keys; wantedModes: LockMode[] }[] = [
    { what: 'the same key', held: apart[0], mode: 'exclusive', wanted: apart[0], wantedModes: both },
    {
      what: 'a key on the same stripe',
      held: together[0],
      mode: 'exclusive',
      wanted: together[1],
      wantedModes: both,
    },
    { what: 'one key of several', held: apart[2], mode: 'exclusive', wanted: apart, wantedModes: both },
    { what: 'one of several keys held', held: apart, mode: 'exclusive', wanted: apart[1], wantedModes: both },
    { what: 'an upgrade', held: apart[0], mode: 'shared', wanted: apart[0], wantedModes: ['exclusive'] },
    {
      what: 'an upgrade of one of several, by a key on the same stripe',
      held: [together[0], ...apart],
      mode: 'shared',
      wanted: [apart[1], together[1]],
      wantedModes: ['exclusive'],
    },
  ];
  for (const { what, held, mode, wanted, wantedModes } of cases) {
    it(`is refused at once, and one attempt fails: ${what}`, async () => {
      const times: number[] = [];
      for (const how of ['acquireSync', 'acquire', 'tryAcquire', 'of another opening'] as const) {
        const lock = newLock();
        const opened = how === 'of another opening' ? StripedLock.from(lock.handle) : lock;
        const holder =
          how === 'acquire' ? await lock.acquire(held, { mode }) : opened.tryAcquire(held, { mode })!;
        const holding = lock.inspect();
        for (const [i, wantedMode] of wantedModes.entries()) {
          const start = performance.now();
          const error = thrownBy(() => lock.acquireSync(wanted, { mode: wantedMode }));
          times.push(performance.now() - start);
          expect(error).toBeInstanceOf(DeadlockError);
          expect(thrownBy(() => lock.withLockSync(wanted, { mode: wantedMode }, () => 'ran'))).toBeInstanceOf(
            DeadlockError,
          );
          expect(lock.tryAcquire(wanted, { mode: wantedMode })).toBeUndefined();
          // At once: no acquisition was ever queued.
          expect(lock.stats()).toMatchObject({ deadlocks: 2 * (i + 1), waiting: 0, contended: 0 });
        }
        // The refused acquisition holds nothing, and the first one still holds its stripes.
        expect(lock.inspect()).toEqual(holding);
        holder.release();
        lock.acquireSync(wanted).release();
      }
      expectPrompt(`refusal of ${what}`, times, AT_ONCE);
    });
  }

  it('is refused if a queued writer would block a second shared hold for ever', async () => {
    const lock = newLock();
    const times: number[] = [];
    for (const writerOn of ['another thread, blocked', 'another thread', 'this thread']) {
      const agent = await Agent.start(lock);
      const first = lock.acquireSync('key', { mode: 'shared' });
      const writer =
        writerOn === 'this thread'
          ? watch(lock.acquire('key'))
          : watch(writerOn === 'another thread' ? agent.acquire('key') : agent.acquireSync('key'));
      await until(() => lock.stats().waiting === 1, 'the writer is queued');
      const { deadlocks, contended } = lock.stats();
      if (writerOn === 'this thread') {
        // Its writer cannot be granted while it blocks, so that is not in the way.
        lock.acquireSync('key', { mode: 'shared' }).release();
        expect(lock.stats().deadlocks).toBe(deadlocks);
      } else {
        const start = performance.now();
        expect(thrownBy(() => lock.acquireSync('key', { mode: 'shared' }))).toBeInstanceOf(DeadlockError);
        times.push(performance.now() - start);
        expect(lock.tryAcquire('key', { mode: 'shared' })).toBeUndefined();
        expect(lock.stats()).toMatchObject({ deadlocks: deadlocks + 1, contended });
      }
      expect(writer.state).toBe('pending');
      first.release();
      await (await writer.promise).release();
      expect(lock.inspect()).toEqual([]);
    }
    expectPrompt('refusal of a second shared hold', times, AT_ONCE);
  });

  it('fails with an error that names the thread, the keys, the stripe and what to do', () => {
    const lock = newLock();
    const [held, wanted] = keysTogether(lock, 2) as [string, string];
    lock.acquireSync(held);
    const error = thrownBy(() => lock.acquireSync([wanted, 'another'])) as DeadlockError;
    expect(error).toBeInstanceOf(LockError);
    expect(error).toMatchObject({
      name: 'DeadlockError',
      code: 'ERR_LOCK_DEADLOCK',
      keys: [wanted, 'another'],
      threads: [0],
      stripes: [lock.stripeOf(wanted)],
    });
    for (const part of [
      '"knots"',
      wanted,
      'thread (0)',
      `stripe ${lock.stripeOf(wanted)}`,
      'share a stripe',
      'in one call',
    ]) {
      expect(error.message).toContain(part);
    }
  });
});
