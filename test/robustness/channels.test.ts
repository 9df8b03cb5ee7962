import diagnostics_channel from 'node:diagnostics_channel';
import { describe, expect, it, onTestFinished } from 'vitest';
import { DeadlockError, StripedLock } from 'stripelock';
import { Agent } from '../support/agent.js';
import { CHANNELS, listen } from '../support/channels.js';
import { keysApart } from '../support/keys.js';
import { Victim } from '../support/victim.js';
import { rejectionOf, thrownBy, until } from '../support/waiting.js';

function newLock(engine: 'native' | 'javascript' = 'native'): StripedLock {
  return new StripedLock({ engine, stripes: 64, name: 'loud' });
}

const ANY_TIME = expect.any(Number) as number;

for (const engine of ['native', 'javascript'] as const) {
  describe(`the diagnostics channels, on the ${engine} engine`, () => {
    it('report waits: granted, timed out and aborted, with their length', async () => {
      const lock = newLock(engine);
      const agent = await Agent.start(lock);
      const heard = listen('wait');
      const common = { lock: 'loud', threadId: 0, key: 'key' };

      // Granted at once, which is not a wait.
      lock.acquireSync('key').release();
      (await lock.acquire(['key', 'another'])).release();
      lock.tryAcquire('key')!.release();
      expect(heard).toEqual([]);

      const theirs = await agent.acquireSync('key');
      expect(lock.tryAcquire('key')).toBeUndefined();
      thrownBy(() => lock.acquireSync('key', { timeout: 0 }));
      expect(heard).toEqual([]);
      await rejectionOf(lock.acquire('key', { timeout: 30, mode: 'shared' }));
      thrownBy(() => lock.acquireSync(['key'], { timeout: 30 }));
      const abort = new AbortController();
      const aborted = rejectionOf(lock.acquire('key', { signal: abort.signal }));
      abort.abort();
      await aborted;
      const released = agent.releaseAfter(theirs, 40);
      lock.acquireSync('key', { timeout: 20_000 }).release();
      await released;
      const ours = lock.acquireSync('key');
      const waiting = lock.acquire('key');
      ours.release();
      (await waiting).release();

      expect(heard).toEqual(
        [
          { keys: ['key'], mode: 'shared', kind: 'async', waited: ANY_TIME, outcome: 'timeout' },
          { keys: ['key'], mode: 'exclusive', kind: 'sync', waited: ANY_TIME, outcome: 'timeout' },
          { keys: ['key'], mode: 'exclusive', kind: 'async', waited: ANY_TIME, outcome: 'aborted' },
          { keys: ['key'], mode: 'exclusive', kind: 'sync', waited: ANY_TIME, outcome: 'granted' },
          { keys: ['key'], mode: 'exclusive', kind: 'async', waited: ANY_TIME, outcome: 'granted' },
        ].map((message) => ['wait', { ...common, ...message }]),
      );
      const waits = heard.map(([, message]) => message['waited'] as number);
      expect(waits[0]).toBeGreaterThanOrEqual(29);
      expect(waits[1]).toBeGreaterThanOrEqual(29);
      for (const waited of waits) expect(waited).toBeLessThan(20_000);
      expect(Math.min(...waits)).toBeGreaterThanOrEqual(0);
    });

    it('report a wait to a subscriber that came during the wait, without its key', async () => {
      const lock = newLock(engine);
      const ours = lock.acquireSync('key');
      const waiting = lock.acquire('key');
      const heard = listen('wait');
      ours.release();
      (await waiting).release();
      expect(heard).toMatchObject([['wait', { key: undefined, outcome: 'granted' }]]);
    });

    it('report as many waits as count as contended, with the first key that was not free', async () => {
      const lock = newLock(engine);
      const agent = await Agent.start(lock);
      const keys = keysApart(lock, 4).sort((a, b) => lock.stripeOf(a) - lock.stripeOf(b));
      const theirs = [await agent.acquireSync(keys[1]!), await agent.acquireSync(keys[2]!)];
      const heard = listen('wait');
      const all = keys.toReversed();
      await rejectionOf(lock.acquire(all, { timeout: 5 }));
      thrownBy(() => lock.acquireSync(all, { timeout: 5 }));
      await theirs[0]!.release();
      await rejectionOf(lock.acquire([...all, keys[0]!], { timeout: 5 }));
      await theirs[1]!.release();
      // Refused at once.
      const own = lock.acquireSync(keys[0]!);
      expect(thrownBy(() => lock.acquireSync(keys[0]!))).toBeInstanceOf(DeadlockError);
      own.release();
      expect(heard.map(([, { key }]) => key)).toEqual([keys[1], keys[1], keys[2]]);
      expect(lock.stats().contended).toBe(heard.length);
      expect(lock.stats().deadlocks).toBe(1);
    });

    it('report timeouts, with the stripe and its holders', async () => {
      const lock = newLock(engine);
      const agent = await Agent.start(lock);
      const [first, second] = keysApart(lock, 2) as [string, string];
      await agent.acquireSync(second);
      const heard = listen('timeout');
      thrownBy(() => lock.acquireSync([first, second], { timeout: 5 }));
      await rejectionOf(lock.acquire(second, { timeout: 7, mode: 'shared' }));
      thrownBy(() => lock.acquireSync(second, { timeout: 0 }));
      expect(lock.tryAcquire(second)).toBeUndefined();
      const stripe = lock.stripeOf(second);
      const common = { lock: 'loud', threadId: 0, stripe, holders: [agent.threadId] };
      expect(heard).toEqual(
        [
          { keys: [first, second], mode: 'exclusive', kind: 'sync', timeout: 5 },
          { keys: [second], mode: 'shared', kind: 'async', timeout: 7 },
          { keys: [second], mode: 'exclusive', kind: 'sync', timeout: 0 },
        ].map((message) => ['timeout', { ...common, ...message }]),
      );
    });

    it('report refused deadlocks, with threads and stripes', () => {
      const lock = newLock(engine);
      lock.acquireSync('key');
      const heard = listen('deadlock', 'wait');
      thrownBy(() => lock.acquireSync(['key']));
      const common = { lock: 'loud', keys: ['key'], mode: 'exclusive', kind: 'sync', threadId: 0 };
      expect(heard).toEqual([['deadlock', { ...common, threads: [0], stripes: [lock.stripeOf('key')] }]]);
    });

    it('make and publish no message without a subscriber', async () => {
      const published: string[] = [];
      for (const name of CHANNELS) {
        const channel = diagnostics_channel.channel(`stripelock:${name}`);
        expect(channel.hasSubscribers).toBe(false);
        Object.defineProperty(channel, 'publish', { configurable: true, value: () => published.push(name) });
        onTestFinished(() => void Reflect.deleteProperty(channel, 'publish'));
      }
      const lock = newLock(engine);
      const ours = lock.acquireSync('key');
      thrownBy(() => lock.acquireSync('key'));
      await rejectionOf(lock.acquire('key', { timeout: 5 }));
      thrownBy(() => lock.acquireSync('key', { timeout: 0 }));
      const abort = new AbortController();
      const aborted = rejectionOf(lock.acquire('key', { signal: abort.signal }));
      abort.abort();
      await aborted;
      const waiting = lock.acquire('key');
      ours.release();
      (await waiting).release();
      if (engine === 'native') {
        const victim = await Victim.start(lock, { holds: [{ keys: 'key' }] });
        await victim.end('exit');
        expect(lock.acquireSync('key').abandoned).toBe(true);
      }
      expect(published).toEqual([]);
      // Shows that the spies are where the lock publishes.
      listen('wait');
      const other = lock.acquireSync('other');
      await rejectionOf(lock.acquire('other', { timeout: 1 }));
      other.release();
      expect(published).toEqual(['wait']);
    });
  });
}

describe('the diagnostics channels', () => {
  it('report abandoned stripes once, whether granted at once or after a wait', async () => {
    const lock = newLock();
    const [first, second] = keysApart(lock, 2) as [string, string];
    const stripes = [first, second].map((key) => lock.stripeOf(key));
    const heard = listen('abandoned');
    const common = { lock: 'loud', keys: [first, second], mode: 'exclusive', threadId: 0, stripes };
    for (const [kind, take] of [
      ['sync', () => lock.acquireSync([first, second], { timeout: 20_000 })],
      ['async', () => lock.acquire([first, second], { timeout: 20_000 })],
    ] as const) {
      for (const waits of kind === 'sync' ? [false] : [false, true]) {
        const victim = await Victim.start(lock, { holds: [{ keys: second }] });
        const waiting = waits ? take() : undefined;
        await victim.end('terminate');
        (await (waiting ?? take())).release();
        lock.acquireSync([first, second]).release();
        expect(heard.splice(0)).toEqual([['abandoned', { ...common, kind }]]);
      }
    }
  });

  it('report a cycle of threads on the thread that is refused', async () => {
    const lock = newLock();
    const [ourKey, theirKey] = keysApart(lock, 2) as [string, string];
    const agent = await Agent.start(lock);
    const heard = listen('deadlock');
    let refusedHere = 0;
    // Either of the two may be refused: repeat until it is this one.
    for (let round = 0; round < 50 && refusedHere === 0; round++) {
      const ours = lock.acquireSync(ourKey);
      const theirs = await agent.acquireSync(theirKey);
      const blocked = agent.acquireSync(ourKey, { timeout: 20_000 });
      if (round % 2 === 0) await until(() => lock.stats().waiting === 1, 'the other is blocked');
      try {
        lock.acquireSync(theirKey, { timeout: 300 }).release();
      } catch (error) {
        if ((error as { code: string }).code === 'ERR_LOCK_DEADLOCK') refusedHere++;
      }
      ours.release();
      await blocked.then(
        (guard) => guard.release(),
        () => undefined,
      );
      await theirs.release();
    }
    expect(refusedHere).toBe(1);
    expect(heard).toEqual([
      [
        'deadlock',
        {
          lock: 'loud',
          keys: [theirKey],
          mode: 'exclusive',
          kind: 'sync',
          threadId: 0,
          threads: [0, agent.threadId],
          stripes: [lock.stripeOf(theirKey), lock.stripeOf(ourKey)],
        },
      ],
    ]);
  });
});
