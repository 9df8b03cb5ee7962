import { expect, it, onTestFinished } from 'vitest';
import { LeaderElection, type LeaderElectionOptions } from 'stripelock';
import { ProcessLock, type ProcessGuard } from 'stripelock/process';
import { runProgram } from '../support/programs.js';
import { lockPath, Peer, type Got } from './peer.js';

/** A candidate of this thread that writes down what happens to it. */
function candidate(
  lock: ProcessLock,
  log: string[],
  name: string,
  options: Partial<LeaderElectionOptions<ProcessLock>> = {},
): LeaderElection<ProcessLock> {
  const election = new LeaderElection(lock, 'reports', {
    onElected: (guard: ProcessGuard<'exclusive'>, signal) => {
      log.push(`${name} leads: ${guard.held}`);
      signal.addEventListener('abort', () =>
        log.push(`${name} ends: ${(signal.reason as { code: string }).code}`),
      );
    },
    ...options,
  });
  onTestFinished(() => election.close());
  election.start();
  return election;
}

function open(path = lockPath()): ProcessLock {
  const lock = new ProcessLock({ path });
  onTestFinished(() => lock.close());
  return lock;
}

/** The peer that leads, once one does. */
async function leaderOf(peers: readonly Peer[]): Promise<[Peer, Got]> {
  let found: [Peer, Got] | undefined;
  await expect
    .poll(async () => {
      const led = await Promise.all(peers.map((peer) => peer.ask<Got | undefined>('leads')));
      const leaders = peers.flatMap((peer, i) =>
        led[i] === undefined ? [] : [[peer, led[i]] as [Peer, Got]],
      );
      expect(leaders.length).toBeLessThan(2);
      return (found = leaders[0]);
    })
    .toBeDefined();
  return found!;
}

it('has one leader among the processes of a machine, and the kernel elects the next one when it dies', async () => {
  const path = lockPath();
  const peers = await Promise.all([1, 2, 3].map(() => Peer.start(path)));
  await Promise.all(peers.map((peer) => peer.ask('stand', 'reports')));
  const [first, one] = await leaderOf(peers);
  expect(one.abandoned).toBe(false);
  await first.kill();
  const others = peers.filter((peer) => peer !== first);
  const [second, two] = await leaderOf(others);
  expect(two.abandoned).toBe(true);
  expect(BigInt(two.token)).toBeGreaterThan(BigInt(one.token));
  await second.ask('resign');
  const [third, three] = await leaderOf(others);
  expect(third).not.toBe(second);
  expect(three.abandoned).toBe(false);
  expect(BigInt(three.token)).toBeGreaterThan(BigInt(two.token));
});

it('hands over only after the work of a leader that resigns has ended', async () => {
  const path = lockPath();
  const log: string[] = [];
  let finish!: () => void;
  const work = new Promise<void>((resolve) => (finish = resolve));
  const one = candidate(open(path), log, 'one', { onElected: () => work });
  await expect.poll(() => one.leading).toBe(true);
  const other = candidate(open(path), log, 'other');
  const resigned = one.resign();
  expect(one.leading).toBe(false);
  expect(other.leading).toBe(false);
  finish();
  await resigned;
  await expect.poll(() => other.leading).toBe(true);
  expect(log).toEqual(['other leads: true']);
});

it('stands again after its work has failed, and lets other candidates lead first', async () => {
  const path = lockPath();
  const log: string[] = [];
  const one = candidate(open(path), log, 'one', {
    onElected: () => Promise.reject(new Error('no work')),
    onLost: (reason) => log.push(`one lost: ${reason.message}`),
  });
  await expect.poll(() => log).toEqual(['one lost: no work']);
  const other = candidate(open(path), log, 'other');
  await expect.poll(() => other.leading).toBe(true);
  await other.close();
  await one.close();
  expect(log.slice(0, 3)).toEqual([
    'one lost: no work',
    'other leads: true',
    'other ends: ERR_LEASE_RESIGNED',
  ]);
});

it('ends its candidature when the lock is closed, but leads on until it resigns', async () => {
  const path = lockPath();
  const [mine, theirs] = [open(path), open(path)];
  const log: string[] = [];
  const one = candidate(mine, log, 'one');
  await expect.poll(() => one.leading).toBe(true);
  const other = candidate(theirs, log, 'other');
  await expect.poll(() => theirs.stateOf('reports').waiters).toBe(1);
  await theirs.close();
  await mine.close();
  expect(one.leading).toBe(true);
  await one.resign();
  await other.resign();
  expect(other.leading).toBe(false);
  expect(() => other.start()).toThrow(expect.objectContaining({ code: 'ERR_LOCK_CLOSED' }));
  expect(log).toEqual(['one leads: true', 'one ends: ERR_LEASE_RESIGNED']);
});

it('is refused over a lock with permits, where several could lead', async () => {
  await using lock = new ProcessLock({ path: lockPath(), limit: 2 });
  expect(() => new LeaderElection(lock, 'reports', { onElected: () => undefined })).toThrow(
    expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' }),
  );
});

it('keeps its process alive until it resigns', async () => {
  const { code, stdout } = await runProgram('lead-and-resign.mjs', [lockPath()]);
  expect([code, stdout]).toEqual([0, 'elected\nstill there\nresigned\n']);
});
