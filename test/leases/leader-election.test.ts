import { getEventListeners } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import {
  LeaderElection,
  LeaseManager,
  LockError,
  MemoryLeaseStore,
  type LeaderElectionOptions,
  type Lease,
} from 'stripelock';
import { block } from '../support/block.js';
import { runProgram } from '../support/programs.js';
import { turns } from '../support/waiting.js';
import { failing, FaultyStore } from './faulty-store.js';

const ttl = 600_000;

/** A candidate that writes down what happens to it. */
function candidate(
  leases: LeaseManager,
  log: string[],
  name: string,
  options: Partial<LeaderElectionOptions> = {},
): LeaderElection {
  const election = new LeaderElection(leases, 'reports', {
    ttl,
    onElected: (lease, signal) => {
      log.push(`${name} leads`);
      signal.addEventListener('abort', () =>
        log.push(`${name} ends: ${(signal.reason as { code: string }).code}`),
      );
      lease.assertHeld();
    },
    onLost: (reason) => log.push(`${name} lost: ${(reason as { code?: string }).code ?? reason.message}`),
    ...options,
  });
  onTestFinished(() => election.close());
  election.start();
  return election;
}

it('has one leader, and another one after its resignation', async () => {
  const store = new MemoryLeaseStore();
  const log: string[] = [];
  const [one, other] = [
    candidate(new LeaseManager({ store }), log, 'one'),
    candidate(new LeaseManager({ store }), log, 'other'),
  ];
  one.start();
  await expect.poll(() => one.leading).toBe(true);
  expect(other.leading).toBe(false);
  await one.resign();
  await expect.poll(() => other.leading).toBe(true);
  expect(one.leading).toBe(false);
  expect(log).toEqual(['one leads', 'one ends: ERR_LEASE_RESIGNED', 'other leads']);
  // It stands again only when it is told to.
  await other.resign();
  expect(await store.inspect('reports')).toBe(undefined);
  one.start();
  await expect.poll(() => one.leading).toBe(true);
  await one.close();
  expect(() => one.start()).toThrow(expect.objectContaining({ code: 'ERR_LEASE_ELECTION_CLOSED' }));
});

it('does not release the lease before the work has ended', async () => {
  const store = new MemoryLeaseStore();
  const log: string[] = [];
  const one = candidate(new LeaseManager({ store }), log, 'one', {
    onElected: async (_lease, signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      await delay(50);
      log.push('one has ended its work');
    },
  });
  await expect.poll(() => one.leading).toBe(true);
  candidate(new LeaseManager({ store }), log, 'other');
  await one.resign();
  await expect.poll(() => log).toEqual(['one has ended its work', 'other leads']);
});

it('does not wait for work that waits for its resignation for longer than a TTL', async () => {
  const store = new MemoryLeaseStore();
  const resigned: Promise<void>[] = [];
  const election: LeaderElection = new LeaderElection(new LeaseManager({ store }), 'reports', {
    ttl: 100,
    onElected: () => resigned[resigned.push(election.resign()) - 1],
  });
  election.start();
  await expect.poll(() => resigned.length).toBe(1);
  await resigned[0];
  expect(await store.inspect('reports')).toBe(undefined);
});

it('notifies the leader of its loss, and elects again', async () => {
  const store = new FaultyStore();
  const log: string[] = [];
  const leases = new LeaseManager({ store });
  let lease: Lease | undefined;
  const one = candidate(leases, log, 'one', {
    onElected: (granted) => {
      log.push('one leads');
      lease = granted;
    },
  });
  await expect.poll(() => one.leading).toBe(true);
  const first = lease!;
  await store.inner.release('reports', first.holder);
  expect(await first.renew()).toBe(false);
  expect(one.leading).toBe(false);
  await expect.poll(() => log).toEqual(['one leads', 'one lost: ERR_LEASE_LOST', 'one leads']);
  expect(lease!.token > first.token).toBe(true);
});

it('waits after work that fails, while others may lead', async () => {
  const store = new MemoryLeaseStore();
  const log: string[] = [];
  const began = performance.now();
  const one = candidate(new LeaseManager({ store }), log, 'one', {
    onElected: async () => {
      log.push('one fails');
      await turns();
      throw new Error('no database');
    },
  });
  await expect.poll(() => log).toEqual(['one fails', 'one lost: no database']);
  const other = candidate(new LeaseManager({ store }), log, 'other');
  await expect.poll(() => other.leading).toBe(true);
  expect(one.leading).toBe(false);
  await other.close();
  await expect.poll(() => log.filter((line) => line === 'one fails').length, { timeout: 20_000 }).toBe(2);
  // Timers are late, never early.
  expect(performance.now() - began).toBeGreaterThan(990);
  // A candidate that waits after a failure ends at once.
  await one.close();
});

it('keeps the process alive while it leads, and lets it end after its resignation', async () => {
  const { code, stdout } = await runProgram('lead-and-resign.mjs');
  expect([code, stdout]).toEqual([0, 'elected\nstill there\nresigned\n']);
});

it('ends with its manager', async () => {
  const log: string[] = [];
  const store = new MemoryLeaseStore();
  const [leads, waits] = [new LeaseManager({ store }), new LeaseManager({ store })];
  const one = candidate(leads, log, 'one');
  await expect.poll(() => one.leading).toBe(true);
  const other = candidate(waits, log, 'other');
  await delay(5);
  await waits.close();
  await leads.close();
  await expect.poll(() => log).toEqual(['one leads', 'one ends: ERR_LEASE_LOST', 'one lost: ERR_LEASE_LOST']);
  await Promise.all([one.close(), other.close()]);
});

it('knows after a blocked event loop that it has lost, before a timer or an event says so', async () => {
  const store = new FaultyStore();
  let told: AbortSignal | undefined;
  const options = { ttl: 300, onElected: (_lease: Lease, signal: AbortSignal) => void (told = signal) };
  const one = candidate(new LeaseManager({ store, renew: { every: 200 } }), [], 'one', options);
  await expect.poll(() => one.leading).toBe(true);
  expect(told!.aborted).toBe(false);
  store.before.renew = failing;
  block(600);
  expect(told!.aborted).toBe(true);
  expect(told!.reason).toMatchObject({ code: 'ERR_LEASE_LOST' });
  expect(one.leading).toBe(false);
});

it('does not lead right after it has resigned, even if it stands again', async () => {
  const one = candidate(new LeaseManager(), [], 'one');
  await expect.poll(() => one.leading).toBe(true);
  const resigned = one.resign();
  expect(one.leading).toBe(false);
  one.start();
  expect(one.leading).toBe(false);
  await resigned;
  await expect.poll(() => one.leading).toBe(true);
});

/** A store that refuses for good, until `allow` is called. The event loop turns before each refusal, so an endless loop shows. */
function denyingStore(): { store: FaultyStore; asked: number[]; allow: () => void } {
  const store = new FaultyStore();
  const asked: number[] = [];
  store.before.tryAcquire = async () => {
    asked.push(performance.now());
    await turns();
    throw new LockError('ERR_LEASE_STORE_DENIED', 'no rights');
  };
  return { store, asked, allow: () => delete store.before.tryAcquire };
}

it('reports each time that the store refuses for good, after a longer and longer pause', async () => {
  const { store, asked, allow } = denyingStore();
  const errors: Error[] = [];
  const onError = (error: Error): void => void errors.push(error);
  const one = candidate(new LeaseManager({ store }), [], 'one', { onError });
  await expect.poll(() => errors.length, { timeout: 30_000 }).toBe(3);
  expect(errors.map((error) => (error as Error & { code?: string }).code)).toEqual(
    asked.map(() => 'ERR_LEASE_STORE_DENIED'),
  );
  // Timers are late, never early.
  expect(asked[1]! - asked[0]!).toBeGreaterThan(990);
  expect(asked[2]! - asked[1]!).toBeGreaterThan(1990);
  allow();
  await expect.poll(() => one.leading, { timeout: 30_000 }).toBe(true);
  expect(errors.length).toBe(3);
});

it('warns once of a store that refuses permanently, without an `onError`', async () => {
  const { store, asked } = denyingStore();
  const warnings: (Error & { code?: string })[] = [];
  const listener = (warning: Error): void => void warnings.push(warning);
  process.on('warning', listener);
  onTestFinished(() => void process.off('warning', listener));
  candidate(new LeaseManager({ store }), [], 'one');
  await expect.poll(() => asked.length, { timeout: 30_000 }).toBe(2);
  await turns();
  const ours = warnings.filter(({ code }) => code === 'STRIPELOCK_ELECTION_FAILED');
  expect(ours.map(({ message }) => message)).toEqual([
    "the election of 'reports' cannot be won, and is tried again: no rights",
  ]);
});

it('does not report failures that may end by themselves, nor its resignation', async () => {
  const store = new FaultyStore();
  const errors: Error[] = [];
  store.before.tryAcquire = failing;
  const leases = new LeaseManager({ store, backoff: { initial: 1, max: 2 } });
  const one = candidate(leases, [], 'one', { onError: (error) => errors.push(error) });
  await expect.poll(() => store.count('tryAcquire')).toBeGreaterThan(3);
  await one.resign();
  delete store.before.tryAcquire;
  one.start();
  await expect.poll(() => one.leading).toBe(true);
  expect(errors).toEqual([]);
});

it('pauses for a second again after it has led for longer than a TTL', async () => {
  let [calls, failedAt, again] = [0, 0, Infinity];
  candidate(new LeaseManager(), [], 'one', {
    ttl: 50,
    onElected: async () => {
      calls++;
      if (calls === 5) again = performance.now();
      if (calls === 4) await delay(200);
      failedAt = performance.now();
      if (calls <= 4) throw new Error('no database');
    },
  });
  let pausedFrom = 0;
  await expect
    .poll(
      () => {
        if (calls === 4) pausedFrom = failedAt;
        return calls;
      },
      { timeout: 40_000, interval: 5 },
    )
    .toBe(5);
  // It has paused for 1, 2 and 4 s. Without the reset it would now pause for 8 s, and a busy machine makes 1 s longer.
  expect(again - pausedFrom).toBeLessThan(7500);
}, 60_000);

it('leaves no listeners behind, however often it is elected', async () => {
  const signals = new Set<AbortSignal>();
  // eslint-disable-next-line @typescript-eslint/unbound-method -- it is put back, and called on what it belongs to
  const { addEventListener } = EventTarget.prototype;
  EventTarget.prototype.addEventListener = function (this: EventTarget, ...of): void {
    if (this instanceof AbortSignal) signals.add(this);
    addEventListener.apply(this, of);
  };
  onTestFinished(() => void (EventTarget.prototype.addEventListener = addEventListener));
  const store = new FaultyStore();
  const leases: Lease[] = [];
  const onElected = (lease: Lease): void => void leases.push(lease);
  const one = candidate(new LeaseManager({ store }), [], 'one', { onElected });
  const most = (): number =>
    Math.max(...[...signals].map((signal) => getEventListeners(signal, 'abort').length));
  let first = 0;
  for (let i = 1; i <= 20; i++) {
    await expect.poll(() => leases.length).toBe(i);
    await turns();
    if (i === 1) first = most();
    await store.inner.release('reports', leases.at(-1)!.holder);
    await leases.at(-1)!.renew();
  }
  await expect.poll(() => one.leading).toBe(true);
  await turns();
  expect(first).toBeGreaterThan(0);
  expect(most()).toBeLessThanOrEqual(first);
  await one.close();
  expect(most()).toBe(0);
});

it('does not stand again while work that ignored its signal is still running', async () => {
  const store = new FaultyStore();
  const log: string[] = [];
  const works: (() => void)[] = [];
  const leases: Lease[] = [];
  const onElected = (lease: Lease): Promise<void> => {
    leases.push(lease);
    return new Promise<void>((resolve) => works.push(resolve));
  };
  const one = candidate(new LeaseManager({ store }), log, 'one', { ttl: 50, onElected });
  await expect.poll(() => leases.length).toBe(1);
  await store.inner.release('reports', leases[0]!.holder);
  await leases[0]!.renew();
  // Another one leads meanwhile.
  const other = candidate(new LeaseManager({ store }), log, 'other');
  await expect.poll(() => other.leading).toBe(true);
  await other.close();
  await expect.poll(() => store.inner.size).toBe(0);
  await delay(150);
  expect([works.length, one.leading]).toEqual([1, false]);
  works[0]!();
  // A lease of 50 ms may be lost before a test looks.
  await expect.poll(() => works.length).toBe(2);
  works[1]!();
});

it('refuses a second election of a name also after another one has resigned several times', async () => {
  const leases = new LeaseManager({ store: new FaultyStore(), holder: 'me' });
  const one = candidate(leases, [], 'one');
  await expect.poll(() => one.leading).toBe(true);
  const [other, third] = ['other', 'third'].map(() => {
    const election = new LeaderElection(leases, 'reports', { ttl, onElected: () => undefined });
    onTestFinished(() => election.close());
    return election;
  });
  void one.resign();
  one.start();
  const ended = one.resign();
  const enters = (): boolean => {
    try {
      other!.start();
      return true;
    } catch {
      return false;
    }
  };
  while (!enters()) await Promise.resolve();
  await ended;
  expect(() => third!.start()).toThrow('another election');
});

it('refuses a second election of a name in a manager with a holder, until the first has resigned', async () => {
  const leases = new LeaseManager({ store: new FaultyStore(), holder: 'me' });
  const log: string[] = [];
  const one = candidate(leases, log, 'one');
  await expect.poll(() => one.leading).toBe(true);
  const other = new LeaderElection(leases, 'reports', { ttl, onElected: () => void log.push('other leads') });
  onTestFinished(() => other.close());
  const duplicate = expect.objectContaining({ code: 'ERR_LEASE_ELECTION_DUPLICATE' }) as Error;
  expect(() => other.start()).toThrow(duplicate);
  expect(() => other.start()).toThrow(duplicate);
  const another = new LeaderElection(leases, 'another', {
    ttl,
    onElected: () => void log.push('another leads'),
  });
  another.start();
  await expect.poll(() => another.leading).toBe(true);
  await another.close();
  // The first one may stand again at any time.
  void one.resign();
  one.start();
  expect(() => other.start()).toThrow(duplicate);
  await expect.poll(() => one.leading).toBe(true);
  await one.resign();
  other.start();
  await expect.poll(() => other.leading).toBe(true);
  expect(() => one.start()).toThrow(duplicate);
  expect(log.filter((line) => line.endsWith('leads'))).toEqual([
    'one leads',
    'another leads',
    'one leads',
    'other leads',
  ]);
});

it('refuses to start when its manager is closed, also if it stood for election before', async () => {
  const leases = new LeaseManager();
  const closed = expect.objectContaining({ code: 'ERR_LEASE_MANAGER_CLOSED' }) as unknown;
  const stood = candidate(leases, [], 'stood');
  await expect.poll(() => stood.leading).toBe(true);
  await leases.close();
  await expect.poll(() => stood.leading).toBe(false);
  expect(() => stood.start()).toThrow(closed);
  const late = new LeaderElection(leases, 'reports', { ttl, onElected: () => undefined });
  expect(() => late.start()).toThrow(closed);
});

it('refuses bad arguments', () => {
  const leases = new LeaseManager({ renew: { every: 20_000 } });
  const onElected = (): void => undefined;
  const code = (...of: unknown[]): unknown => {
    try {
      new LeaderElection(...(of as ConstructorParameters<typeof LeaderElection>));
      return undefined;
    } catch (error) {
      return (error as { code: string }).code;
    }
  };
  expect(code({}, 'name', { onElected })).toBe('ERR_INVALID_ARG_TYPE');
  // Two elections of one manager would share the lease, and both lead.
  expect(code(new LeaseManager({ reentrant: true }), 'name', { onElected })).toBe('ERR_INVALID_ARG_TYPE');
  expect(code(leases, '', { onElected })).toBe('ERR_OUT_OF_RANGE');
  expect(code(leases, 'name')).toBe('ERR_INVALID_ARG_TYPE');
  expect(code(leases, 'name', {})).toBe('ERR_INVALID_ARG_TYPE');
  expect(code(leases, 'name', { onElected, onLost: 1 })).toBe('ERR_INVALID_ARG_TYPE');
  expect(code(leases, 'name', { onElected, onError: 1 })).toBe('ERR_INVALID_ARG_TYPE');
  expect(code(leases, 'name', { onElected, tll: 1 })).toBe('ERR_INVALID_ARG_TYPE');
  expect(code(leases, 'name', { onElected, ttl: 0 })).toBe('ERR_OUT_OF_RANGE');
  // A renewal every 20 s does not keep a lease of 10 s.
  expect(code(leases, 'name', { onElected })).toBe('ERR_OUT_OF_RANGE');
  expect(code(leases, 'name', { onElected, ttl: 30_000 })).toBe(undefined);
});
