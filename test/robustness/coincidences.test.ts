import { describe, expect, it } from 'vitest';
import { StripedLock, type Guard } from 'stripelock';
import { Agent, type RemoteGuard } from '../support/agent.js';
import { keysApart } from '../support/keys.js';
import { expectPrompt } from '../support/prompt.js';
import { seedFor } from '../support/seed.js';
import { runThread, runThreads } from '../support/threads.js';
import { Victim } from '../support/victim.js';
import { rejectionOf, turns, until, watch } from '../support/waiting.js';

/** Milliseconds in which those behind a waiter that is gone must go on. */
const AT_ONCE = 100;
/** Milliseconds: the timeout of a waiter that must not time out before the others wait, even on a busy machine. */
const LONG_ENOUGH = 1000;
const FOR_EVER = { timeout: Infinity };

function newLock(stripes = 64): StripedLock {
  return new StripedLock({ engine: 'native', stripes, name: 'moments' });
}

interface Outcomes {
  readonly granted: number;
  readonly timeouts: number;
  readonly aborts: number;
  readonly refused: number;
  readonly others: string[];
  readonly added: number[];
}

describe('grant, timeout and abort at the same moment', () => {
  it('end in exactly one outcome each, and nothing is lost, thousands of times', async () => {
    const seed = seedFor('grant, timeout and abort');
    const lock = newLock();
    const keys = keysApart(lock, 2);
    const [cells, gate, stop] = [8, 4, 4].map((size) => new SharedArrayBuffer(size)) as [
      SharedArrayBuffer,
      SharedArrayBuffer,
      SharedArrayBuffer,
    ];
    const rounds = 300;
    const impatient = 3;
    const common = { handle: lock.handle, cells, gate, threads: impatient + 1, keys };
    const patient = runThread<number[]>('patient.mjs', { ...common, stop });
    const outcomes = await runThreads<Outcomes>(
      'coincide.mjs',
      Array.from({ length: impatient }, (_, i) => ({ ...common, rounds, seed: seed + i })),
    );
    Atomics.store(new Int32Array(stop), 0, 1);
    const served = await patient;

    const sum = (of: (outcome: Outcomes) => number): number =>
      outcomes.reduce((total, outcome) => total + of(outcome), 0);
    const [granted, timeouts, aborts] = [
      sum((outcome) => outcome.granted),
      sum((outcome) => outcome.timeouts),
      sum((outcome) => outcome.aborts),
    ];
    const total = impatient * rounds * 7;
    console.log(`${granted} granted, ${timeouts} timed out, ${aborts} aborted of ${total}`);
    expect(outcomes.flatMap(({ others }) => others)).toEqual([]);
    expect(sum(({ refused }) => refused)).toBe(0);
    expect(granted + timeouts + aborts).toBe(total);
    // If one of the outcomes hardly ever came, the three did not meet.
    expect(Math.min(granted, timeouts, aborts)).toBeGreaterThan(total / 100);
    expect([...new Int32Array(cells)]).toEqual(
      keys.map((_, i) => served[i]! + sum(({ added }) => added[i]!)),
    );
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts, aborts, deadlocks: 0 });
    expect(lock.inspect()).toEqual([]);
    expect(lock.tryAcquire(keys)).toBeDefined();
  });

  it('in one turn of the event loop end by what comes first', async () => {
    const lock = newLock();
    for (let round = 0; round < 200; round++) {
      const ours = lock.acquireSync('key');
      const abort = new AbortController();
      const timeout = 2;
      const waiting = watch(lock.acquire('key', { timeout, signal: abort.signal }));
      const behind = watch(lock.acquire('key', FOR_EVER));
      const due = performance.now() + timeout + (round % 3);
      // Its time runs out while the event loop is blocked, so no timer has fired.
      while (performance.now() < due);
      const steps = [() => ours.release(), () => abort.abort(new Error('stop'))];
      if (round % 2 === 0) steps.reverse();
      for (const step of steps) step();
      const guard = await behind.promise.catch(() => undefined);
      await turns(1);
      if (waiting.state === 'fulfilled') throw new Error('granted after its timeout or its abort');
      expect(guard!.held).toBe(true);
      guard!.release();
      expect(lock.inspect()).toEqual([]);
    }
  });
});

describe('a waiter that is gone', () => {
  type Leave = (lock: StripedLock) => Promise<() => Promise<number>>;
  // Each queues an exclusive waiter for the key, and returns a function that removes it and resolves to the time of
  // that.
  const leaves: Record<string, Leave> = {
    'by timeout, on an event loop': async (lock) => {
      const waiting = rejectionOf(lock.acquire('key', { timeout: LONG_ENOUGH }));
      return async () => {
        expect(await waiting).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
        return performance.now();
      };
    },
    'by timeout, blocked': async (lock) => {
      const agent = await Agent.start(lock);
      const waiting = rejectionOf(agent.acquireSync('key', { timeout: LONG_ENOUGH }));
      return async () => {
        expect(await waiting).toMatchObject({ code: 'ERR_LOCK_TIMEOUT' });
        return performance.now();
      };
    },
    'by abort': async (lock) => {
      const abort = new AbortController();
      const waiting = rejectionOf(lock.acquire('key', { ...FOR_EVER, signal: abort.signal }));
      return async () => {
        abort.abort();
        await waiting;
        return performance.now();
      };
    },
    'by the end of its thread, blocked': async (lock) => {
      const victim = await Victim.start(lock, { parked: { keys: 'key' } });
      return () => victim.end('terminate');
    },
    'by the end of its thread, pending': async (lock) => {
      const victim = await Victim.start(lock, { pending: [{ keys: 'key' }] });
      return () => victim.end('exit');
    },
  };
  for (const [how, leave] of Object.entries(leaves)) {
    it(`(${how}) and was exclusive lets in the shared waiters behind it at once`, async () => {
      const times: number[] = [];
      const lock = newLock();
      const agents = await Promise.all([Agent.start(lock), Agent.start(lock)]);
      for (let round = 0; round < 3; round++) {
        const reader = lock.acquireSync('key', { mode: 'shared' });
        const writer = await leave(lock);
        await until(() => lock.stats().waiting === 1, 'the writer waits');
        const shared = { ...FOR_EVER, mode: 'shared' as const };
        const behind = [
          agents[0].acquireSync('key', shared),
          agents[1].acquire('key', shared),
          lock.acquire('key', shared),
        ];
        await until(() => lock.stats().waiting === 4, 'the readers wait behind it');
        let last = 0;
        const entered = Promise.all(behind).then(() => (last = performance.now()));
        const gone = await writer();
        await entered;
        times.push(last - gone);
        expect(reader.held).toBe(true);
        reader.release();
        for (const guard of await Promise.all(behind)) await guard.release();
        expect(lock.inspect()).toEqual([]);
      }
      expectPrompt(`from a writer that is gone (${how}) to the readers`, times, AT_ONCE);
    });
  }

  for (const how of ['sync', 'async'] as const) {
    it(`and waited (${how}) for several keys releases those it had, for those who wait for them`, async () => {
      const lock = newLock();
      const keys = keysApart(lock, 4);
      const [agent, other] = await Promise.all([Agent.start(lock), Agent.start(lock)]);
      for (const mode of ['exclusive', 'shared'] as const) {
        const ours = lock.acquireSync(keys[3]!);
        const options = { mode, timeout: LONG_ENOUGH };
        const waiting = how === 'sync' ? agent.acquireSync(keys, options) : agent.acquire(keys, options);
        const refused = rejectionOf(waiting);
        await until(() => lock.stats().held === 4, 'it has the first three');
        const blocked = watch(other.acquireSync(keys[1]!, FOR_EVER));
        await until(() => lock.stats().waiting === 2, 'another thread is blocked for one of these');
        const behind = [keys[0]!, keys[2]!].map((key) => watch(lock.acquire(key, FOR_EVER)));
        await turns();
        expect([blocked, ...behind].map(({ state }) => state)).toEqual(['pending', 'pending', 'pending']);
        expect(await refused).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', stripe: lock.stripeOf(keys[3]!) });
        for (const { promise } of behind) (await promise).release();
        await (await blocked.promise).release();
        ours.release();
        expect(lock.inspect()).toEqual([]);
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
      }
    });
  }
});

describe('death and timeout at the same moment', () => {
  it('leave one next holder, whose guard is abandoned', async () => {
    const seed = seedFor('death and timeout');
    const lock = newLock(1);
    const agent = await Agent.start(lock);
    const outcomes = { granted: 0, timeout: 0 };
    for (let round = 0; round < 8; round++) {
      const victim = await Victim.start(lock, { holds: [{ keys: 'key' }] });
      const timeout = 2 + ((seed + 7 * round) % 25);
      const begun: Promise<Guard | RemoteGuard>[] = [
        agent.acquireSync('key', { timeout }),
        lock.acquire('key', { timeout }),
      ];
      const impatient = begun.map((promise) => watch(promise));
      await until(
        () => lock.stats().waiting > 0 || impatient.some(({ state }) => state !== 'pending'),
        'they wait',
      );
      await victim.end(round % 2 === 0 ? 'terminate' : 'exit');
      const patient = lock.acquire('key', FOR_EVER);
      let told = 0;
      for (const { promise } of impatient) {
        const guard = await promise.catch(() => undefined);
        outcomes[guard ? 'granted' : 'timeout']++;
        if (guard?.abandoned === true) told++;
        await guard?.release();
      }
      const guard = await patient;
      if (guard.abandoned) told++;
      guard.release();
      expect(told).toBe(1);
      expect(lock.inspect()).toEqual([]);
      expect(lock.stats()).toMatchObject({ waiting: 0, abandoned: round + 1 });
    }
    console.log('death and timeout:', outcomes);
  });
});
