import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { LeaderElection, LeaseManager, MemoryLeaseStore, type Lease } from 'stripelock';
import { runProgram } from '../support/programs.js';
import { FaultyStore } from './faulty-store.js';

const ttl = 600_000;

/** A candidate that writes down what happens to it. */
function candidate(
  leases: LeaseManager,
  log: string[],
  name: string,
  options: Partial<ConstructorParameters<typeof LeaderElection>[2]> = {},
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

it('tells the leader that it has lost, and elects again', async () => {
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
    onElected: () => {
      log.push('one fails');
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
  expect(code(leases, 'name', { onElected, tll: 1 })).toBe('ERR_INVALID_ARG_TYPE');
  expect(code(leases, 'name', { onElected, ttl: 0 })).toBe('ERR_OUT_OF_RANGE');
  // A renewal every 20 s does not keep a lease of 10 s.
  expect(code(leases, 'name', { onElected })).toBe('ERR_OUT_OF_RANGE');
  expect(code(leases, 'name', { onElected, ttl: 30_000 })).toBe(undefined);
});
