import { execFile } from 'node:child_process';
import diagnostics_channel from 'node:diagnostics_channel';
import path from 'node:path';
import { expect } from 'vitest';
import {
  LeaderElection,
  revokeLease,
  type LeaseManager,
  type LeaseStore,
  type ListingLeaseStore,
} from 'stripelock';
import { collect, type Metrics } from 'stripelock/metrics';
import type { ContentionProfiler } from 'stripelock/profile';
import { COMMAND } from '../command/started.js';
import { onNode20 } from '../support/sqlite-drivers.mjs';
import { rejectionOf, thrownBy, turns, until, watch } from '../support/waiting.js';
import type { Ground } from '../support/ground.mjs';
import type { Got, Reach } from './reaches.js';

// Each check uses a feature with another thread or process. It returns undefined if the feature works, and otherwise the
// reason, after it has seen that the package refuses it or has nothing of that name. It fails if neither is true.

/** Milliseconds. Long enough for what happens, on any machine. */
const PATIENCE = { timeout: 60_000 };
/** Milliseconds, of leases whose holder is killed. Long enough for a grant to arrive in time. */
const TTL = 5000;

const REASONS = {
  sharedLease:
    "The cache store keeps one owner for each key. Acquisitions refuse `mode: 'shared'` with `ERR_LEASE_SHARED`.",
  noBlocking: 'A store answers asynchronously, so a thread that is blocked cannot acquire a lease.',
  unknownEnd:
    'The store cannot distinguish a release from an expiry, so `lease.abandoned` is undefined. Compare tokens with your data.',
  noList: 'A cache has no operation that lists keys, so the store has no `list`.',
  noRevoke:
    'A thread cannot lose a key while it lives: end the thread or process that holds it. `revokeLease` refuses a lock.',
  commandIsProcess:
    'A command is a process, so it cannot be given the keys of a thread: use a `ProcessLock`.',
  noUrl: 'The command opens stores by their URL, and this store has none.',
  electionOfThreads:
    'Elect among threads with a `LeaseManager` over memory: `LeaderElection` refuses a `KeyedLock`.',
} as const;

type Reason = (typeof REASONS)[keyof typeof REASONS];

export interface Feature {
  readonly title: string;
  readonly check: (on: Reach, profiler: ContentionProfiler) => Promise<Reason | undefined>;
}

const ignore = (): void => undefined;
const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code;
const storeOf = ({ lock }: Reach): LeaseStore => (lock as LeaseManager).store;

/** A guard or a lease. */
interface Hold extends Got, AsyncDisposable {
  readonly held: boolean;
  release(): unknown;
}

type Locked = Pick<Reach, 'lock'>;
const acquireOf = ({ lock }: Locked) =>
  lock.acquire.bind(lock) as unknown as (keys: string | string[], options?: object) => Promise<Hold>;
const attemptOf = ({ lock }: Locked) =>
  lock.tryAcquire.bind(lock) as unknown as (keys: string | string[]) => Promise<Hold | undefined>;

/** The metrics of the reach, without those of other names. */
function metricsOf({ name }: Reach): Metrics {
  return collect().find((metrics) => metrics.name === name)!;
}

/** Messages on a channel while `during` runs. */
async function published(name: string, during: () => Promise<unknown>): Promise<unknown[]> {
  const messages: unknown[] = [];
  const listen = (message: unknown): void => void messages.push(message);
  diagnostics_channel.subscribe(name, listen);
  await during().finally(() => diagnostics_channel.unsubscribe(name, listen));
  return messages;
}

/** Runs a command under the key; resolves to its exit code and output. */
function run(args: readonly string[]): Promise<{ code: unknown; stderr: string }> {
  const preloaded = onNode20 ? ['-r', path.join(import.meta.dirname, '../support/sqlite-of-node20.cjs')] : [];
  const line = [...preloaded, COMMAND, 'run', ...args, '--', process.execPath, '-e', '0'];
  const options = { ...PATIENCE, killSignal: 'SIGKILL' } as const;
  return new Promise((resolve) =>
    execFile(process.execPath, line, options, (error, _stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stderr }),
    ),
  );
}

/** Waits for a key that the peer holds, until the peer releases it. Returns the hold. */
async function waitForPeer(on: Reach, key: string): Promise<Hold> {
  const peer = await on.peer();
  await peer.ask('acquire', key);
  const waiting = acquireOf(on)(key, PATIENCE);
  await until(() => metricsOf(on).waiting > 0, 'this thread waits');
  await peer.ask('release');
  return waiting;
}

/** Waits until a lock that another thread holds is free. */
async function drainsPeer(on: Reach, lock: Reach['lock'], ground: Ground): Promise<undefined> {
  const peer = await on.peer();
  await peer.ask('open', ground);
  await peer.ask('acquire', 'drained', PATIENCE);
  const drained = watch(lock.drained({ timeout: Infinity }));
  await turns();
  expect(drained.state).toBe('pending');
  await peer.ask('release');
  await drained.promise;
  await peer.kill();
}

export const features: readonly Feature[] = [
  {
    title: 'exclusive: several keys, `timeout`, `signal`, `using`',
    async check(on) {
      const peer = await on.peer();
      const acquire = acquireOf(on);
      await peer.ask('acquire', ['a', 'b']);
      expect(await attemptOf(on)(['b', 'c'])).toBeUndefined();
      expect(codeOf(await rejectionOf(acquire('a', { timeout: 1 })))).toBe('ERR_LOCK_TIMEOUT');
      const reason = new Error('enough');
      const abort = new AbortController();
      const aborted = rejectionOf(acquire('b', { ...PATIENCE, signal: abort.signal }));
      abort.abort(reason);
      expect(await aborted).toBe(reason);
      const waiting = acquire(['a', 'b', 'c'], PATIENCE);
      await peer.ask('release');
      {
        await using held = await waiting;
        expect(held.held).toBe(true);
        expect(await peer.ask('tryAcquire', 'a')).toBeUndefined();
      }
      await peer.ask('acquire', ['a', 'b', 'c'], PATIENCE);
      await peer.ask('release');
      return undefined;
    },
  },
  {
    title: 'blocking: `acquireSync`',
    async check(on) {
      if (on.kind === 'leases') {
        expect('acquireSync' in on.lock).toBe(false);
        return REASONS.noBlocking;
      }
      const peer = await on.peer();
      await peer.ask('acquire', 'sync', PATIENCE);
      const refused = thrownBy(() => on.lock.acquireSync('sync', { timeout: 1 }));
      expect(codeOf(refused)).toBe('ERR_LOCK_TIMEOUT');
      await peer.ask('release');
      const held = on.lock.acquireSync('sync', PATIENCE);
      expect(await peer.ask('tryAcquire', 'sync')).toBeUndefined();
      held.release();
      return undefined;
    },
  },
  {
    title: 'shared: many readers, or one writer',
    async check(on) {
      const shared = { ...PATIENCE, mode: 'shared' };
      const peer = await on.peer();
      try {
        await peer.ask('acquire', 'shared', shared);
      } catch (error) {
        expect(codeOf(error)).toBe('ERR_LEASE_SHARED');
        return REASONS.sharedLease;
      }
      const reader = await acquireOf(on)('shared', shared);
      expect(await attemptOf(on)('shared')).toBeUndefined();
      await peer.ask('release');
      await reader.release();
      const writer = await acquireOf(on)('shared', PATIENCE);
      expect(await peer.ask('tryAcquire', 'shared', { mode: 'shared' })).toBeUndefined();
      await writer.release();
      return undefined;
    },
  },
  {
    title: 'at most N holders: `limit`',
    async check(on) {
      const ofLock = on.kind !== 'leases';
      const limited = ofLock ? await on.open({ limit: 2 }) : on;
      const options = ofLock ? PATIENCE : { ...PATIENCE, limit: 2 };
      const peer = await on.peer();
      if ('ground' in limited) await peer.ask('open', limited.ground);
      const holds = [await acquireOf(limited)('permits', options)];
      await peer.ask('acquire', 'permits', options);
      expect(codeOf(await rejectionOf(acquireOf(limited)('permits', { ...options, timeout: 1 })))).toBe(
        'ERR_LOCK_TIMEOUT',
      );
      await peer.ask('release');
      holds.push(await acquireOf(limited)('permits', options));
      for (const hold of holds) await hold.release();
      await peer.kill();
      return undefined;
    },
  },
  {
    title: 'the next holder learns that the last one died: `abandoned`',
    async check(on) {
      const options = on.kind === 'leases' ? { ...PATIENCE, ttl: TTL, renew: false } : PATIENCE;
      const peer = await on.peer();
      await peer.ask('acquire', 'abandoned', options);
      await peer.kill();
      const next = await acquireOf(on)('abandoned', PATIENCE);
      await next.release();
      const last = await acquireOf(on)('abandoned', PATIENCE);
      await last.release();
      const seen = [next.abandoned, last.abandoned];
      if (next.abandoned !== undefined) expect(seen).toEqual([true, false]);
      else expect(seen).toEqual([undefined, undefined]);
      return next.abandoned === undefined ? REASONS.unknownEnd : undefined;
    },
  },
  {
    title: 'a token that rises with each holder',
    async check(on) {
      const peer = await on.peer();
      const first = await peer.ask('acquire', 'token', PATIENCE);
      await peer.ask('release');
      const second = await acquireOf(on)('token', PATIENCE);
      const { token } = second;
      await second.release();
      const third = await peer.ask('acquire', 'token', PATIENCE);
      await peer.ask('release');
      expect([first!.token < token, token < third!.token]).toEqual([true, true]);
      return undefined;
    },
  },
  {
    title: 'the state of a key: `stateOf`, `inspect`',
    async check(on) {
      const isHeld = async (): Promise<boolean> =>
        on.kind === 'leases'
          ? (await storeOf(on).inspect('state')) !== undefined
          : on.lock.stateOf('state').holders === 1;
      const peer = await on.peer();
      expect(await isHeld()).toBe(false);
      await peer.ask('acquire', 'state', PATIENCE);
      expect(await isHeld()).toBe(true);
      await peer.ask('release');
      expect(await isHeld()).toBe(false);
      return undefined;
    },
  },
  {
    title: 'a list of all held keys: `inspect`, `list`',
    async check(on) {
      const store = storeOf(on) as Partial<ListingLeaseStore> | undefined;
      if (on.kind === 'leases' && store!.list === undefined) return REASONS.noList;
      const keys = async (): Promise<unknown[]> =>
        (on.kind === 'leases' ? await store!.list!() : on.lock.inspect()).map(({ key }) => key);
      const peer = await on.peer();
      await peer.ask('acquire', ['listed', 'too'], PATIENCE);
      expect((await keys()).sort()).toEqual(['listed', 'too']);
      await peer.ask('release');
      expect(await keys()).toEqual([]);
      return undefined;
    },
  },
  {
    title: 'ending the hold of another: `revokeLease`',
    async check(on) {
      const peer = await on.peer();
      await peer.ask('acquire', 'revoked', PATIENCE);
      if (on.kind !== 'leases') {
        expect(codeOf(await rejectionOf(revokeLease(on.lock, 'revoked')))).toBe('ERR_INVALID_ARG_TYPE');
        await peer.ask('release');
        return REASONS.noRevoke;
      }
      expect(await revokeLease(storeOf(on), 'revoked')).toBe(true);
      const next = await acquireOf(on)('revoked', PATIENCE);
      expect(await peer.ask('renew')).toBe(false);
      await next.release();
      return undefined;
    },
  },
  {
    title: 'metrics: `collect`',
    async check(on) {
      collect(); // From now on, waits for locks are measured.
      const before = metricsOf(on);
      const hold = await waitForPeer(on, 'metrics');
      const held = metricsOf(on);
      await hold.release();
      const { contended, waits } = metricsOf(on);
      expect(held.held).toBeGreaterThan(metricsOf(on).held);
      expect(contended).toBeGreaterThan(before.contended);
      expect(waits.count).toBeGreaterThan(before.waits.count);
      return undefined;
    },
  },
  {
    title: 'events on `node:diagnostics_channel`',
    async check(on) {
      const key = `${on.name} event`;
      const channel = on.kind === 'leases' ? 'stripelock:lease:acquired' : 'stripelock:wait';
      const messages = await published(channel, async () => (await waitForPeer(on, key)).release());
      // A peer in this process publishes its own grant before.
      const message = messages.findLast((message) => (message as { key: unknown }).key === key);
      expect(message).toMatchObject({ key, waited: expect.any(Number) as unknown });
      return undefined;
    },
  },
  {
    title: 'spans of acquisitions: `tracingChannel`',
    async check(on) {
      const key = `${on.name} span`;
      const messages = await published('tracing:stripelock:acquire:asyncEnd', () =>
        // A lock publishes only if its start has a subscriber, too.
        published('tracing:stripelock:acquire:start', async () => {
          await (await acquireOf(on)(key, PATIENCE)).release();
        }),
      );
      const spans = messages.filter((message) => (message as { keys: unknown[] }).keys.includes(key));
      expect(spans).toMatchObject([{ keys: [key], lock: on.name }]);
      return undefined;
    },
  },
  {
    title: 'profiles of contention',
    async check(on, profiler) {
      const key = `${on.name} profile`;
      await (await waitForPeer(on, key)).release();
      const waits = profiler.snapshot().waits.filter((wait) => wait.key.includes(key));
      expect(waits).toMatchObject([{ lock: on.name, outcome: 'granted' }]);
      return undefined;
    },
  },
  {
    title: 'a command under the lock: `stripelock run`',
    async check(on) {
      if (on.kind === 'threads') {
        expect(on.lock.path).toBeUndefined();
        return REASONS.commandIsProcess;
      }
      if (on.run === undefined) {
        expect(await run(['--store', `${on.name}:`, '--key', 'command'])).toMatchObject({
          code: 125,
          stderr: expect.stringMatching(/the store's URL must begin with/) as unknown,
        });
        return REASONS.noUrl;
      }
      const peer = await on.peer();
      await peer.ask('acquire', 'command', PATIENCE);
      expect(await run([...on.run, 'command', '--if-available'])).toMatchObject({ code: 75 });
      await peer.ask('release');
      expect(await run([...on.run, 'command'])).toEqual({ code: 0, stderr: '' });
      return undefined;
    },
  },
  {
    title: 'election of a leader, and of the next one after its death',
    async check(on) {
      let elected = ignore;
      const leads = new Promise<void>((resolve) => (elected = resolve));
      const options = { ttl: TTL, onElected: elected };
      const stand = (): LeaderElection => new LeaderElection<LeaseManager>(on.lock, 'election', options);
      if (on.kind === 'threads') {
        expect(thrownBy(stand)).toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
        return REASONS.electionOfThreads;
      }
      const peer = await on.peer();
      await peer.ask('lead', 'election', TTL);
      const election = stand();
      election.start();
      await until(() => metricsOf(on).waiting > 0, 'this candidate waits');
      const elects = watch(leads);
      await turns();
      expect(elects.state).toBe('pending');
      await peer.kill();
      await leads;
      await election.close();
      return undefined;
    },
  },
  {
    title:
      'a shutdown that waits for the holders of all threads, of this process, or of this manager: `drained`, `close({ drain })`',
    async check(on) {
      const { lock, ground } = await on.open({});
      if (on.kind === 'threads') return drainsPeer(on, lock, ground);
      const hold = await acquireOf({ lock })('drained', PATIENCE);
      const drained = watch<unknown>(
        on.kind === 'leases' ? lock.close({ drain: Infinity }) : lock.drained({ timeout: Infinity }),
      );
      await turns();
      expect(drained.state).toBe('pending');
      await hold.release();
      await drained.promise;
      return undefined;
    },
  },
];
