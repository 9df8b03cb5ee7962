import type { ChildProcess } from 'node:child_process';
import diagnostics_channel from 'node:diagnostics_channel';
import { hostname } from 'node:os';
import path from 'node:path';
import { LockTimeoutError } from '../common/errors.js';
import { clearTimeout, performance, setTimeout } from '../common/host.js';
import { leaseChannels, type LeaseFailedMessage } from '../common/diagnostics.js';
import type { Lease } from '../lease/lease.js';
import { releasedOwner } from '../lease/contract/lease-store.js';
import { READERS } from '../lease/contract/shared.js';
import { LeaseManager } from '../lease/manager.js';
import { LOST, type StoreRunRequest } from './arguments.js';
import { endingBy, onceSignalled, runChild, type Ending } from './child.js';
import { soon, withStore, type Store } from './store-url.js';
import { reportHolders } from './waiting.js';
import { printable, quoted, say, secondsText, showCommand } from './words.js';

/** Runs a program under a lease, which this process renews. */
export async function runWithLease(request: StoreRunRequest): Promise<Ending> {
  // This removes the arguments, which may contain a password, from the process list.
  showCommand(request.command);
  return withStore(request.store, { creates: true }, async (store, shown) => {
    const leases = new LeaseManager({
      store,
      ttl: request.ttl,
      minHold: request.minHold,
      // A shared lease has no `info`.
      ...(request.mode === 'exclusive' && { info: infoOf(request) }),
    });
    try {
      return await runUnder(leases, store, request, shown);
    } finally {
      await soon(leases.close());
    }
  });
}

/** Describes this holder to other machines. Omits the command's arguments, which may contain secrets. */
function infoOf({ command: [program] }: StoreRunRequest): string {
  const text = `${hostname()} pid ${process.pid} (${path.basename(program)})`;
  return Buffer.from(text).subarray(0, MAX_INFO).toString();
}

/**
 * The maximum length, in bytes, to which `infoOf` cuts its text. A store accepts a longer text: a character
 * that is cut in the middle may become longer.
 */
const MAX_INFO = 500;

/** A function that removes the URL and its password from a text. */
type Shown = (text: string) => string;

async function runUnder(
  leases: LeaseManager,
  store: Store,
  request: StoreRunRequest,
  shown: Shown,
): Promise<Ending> {
  const { key, timeout, verbose } = request;
  const asked = performance.now();
  const interrupted = new AbortController();
  // If a signal ended this process at once, a lease that was just granted would stay held until its TTL
  // expires.
  const stop = onceSignalled((signal) => interrupted.abort(signal));
  let lease: Lease | undefined;
  try {
    lease = await acquire(leases, store, request, interrupted.signal, shown);
  } catch (error) {
    if (!interrupted.signal.aborted) throw error;
  } finally {
    stop();
  }
  // The manager gives the lease back when it closes.
  if (interrupted.signal.aborted) return endingBy(interrupted.signal.reason as NodeJS.Signals);
  const name = quoted(key);
  const waited = secondsText(performance.now() - asked);
  if (lease === undefined) {
    const holder = await holderText(store, key);
    say(`${name} is not free${timeout > 0 ? ` after ${waited}` : ''}${holder === '' ? '' : `: ${holder}`}`);
    return { code: request.conflictExitCode };
  }
  if (verbose) say(`has ${name} after ${waited}, token ${lease.token}`);
  return runHolding(lease, request, shown);
}

/** Milliseconds between checks for another holder. Each check sends a request to the store. */
const REPORT_INTERVAL = 10_000;

/** Returns undefined if the key is still held after the timeout. */
async function acquire(
  leases: LeaseManager,
  store: Store,
  { key, limit, mode, timeout }: StoreRunRequest,
  signal: AbortSignal,
  shown: Shown,
): Promise<Lease | undefined> {
  const asked = performance.now();
  // The first attempt fails at once if the store cannot be reached. A wait would instead retry until its
  // timeout.
  const lease = await Promise.race([leases.tryAcquire(key, { limit, mode }), abortOf(signal)]);
  if (lease !== undefined || timeout === 0) return lease;
  const stop = reportHolders(quoted(key), REPORT_INTERVAL, () => holderText(store, key));
  let reported = '';
  const report = (message: unknown): void => {
    const text = shown((message as LeaseFailedMessage).error.message);
    if (text !== reported) say(`still waits, although ${text}`);
    reported = text;
  };
  diagnostics_channel.subscribe(leaseChannels.failed.name, report);
  try {
    return await leases.acquire(key, {
      limit,
      mode,
      timeout: Math.max(0, timeout - (performance.now() - asked)),
      signal,
    });
  } catch (error) {
    if (error instanceof LockTimeoutError) return undefined;
    throw error;
  } finally {
    diagnostics_channel.unsubscribe(leaseChannels.failed.name, report);
    stop();
  }
}

/** Rejects when the signal aborts. */
function abortOf(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new Error('a signal ended the wait')), { once: true });
  });
}

/**
 * Describes the holder, or one of the holders if there is a limit. If the key is kept after a release, describes
 * its last holder. Empty if the store knows no holder, or if it fails. The acquisition itself reports failures.
 */
async function holderText(store: Store, key: string): Promise<string> {
  const state = await store.inspect(key).catch(() => undefined);
  if (state === undefined) return '';
  const { owner, remaining } = state;
  const releasedBy = releasedOwner(owner);
  const holder = printable(state.info ?? releasedBy ?? owner);
  if (releasedBy !== undefined)
    return `it is kept for ${secondsText(remaining)} after a release by ${holder}`;
  const ends = `ends in ${secondsText(remaining)} unless it is renewed`;
  if (owner.startsWith(READERS)) return `it is held in shared mode, by a lease that ${ends}`;
  return `${holder} holds it, and its lease ${ends}`;
}

async function runHolding(lease: Lease, request: StoreRunRequest, shown: Shown): Promise<Ending> {
  const { onLoss, grace, ttl } = request;
  let killer: unknown;
  const started = (child: ChildProcess): void => {
    const end = (): void => {
      say(`${shown(lossOf(lease)!)}; the command gets ${onLoss}`);
      child.kill(onLoss);
      killer = setTimeout(() => child.kill('SIGKILL'), grace);
    };
    if (lease.signal.aborted) end();
    else lease.signal.addEventListener('abort', end, { once: true });
    child.once('exit', () => lease.signal.removeEventListener('abort', end));
  };
  const ending = await runChild({ ...request, stdio: 'inherit', env: environmentFor(lease), started });
  clearTimeout(killer as NodeJS.Timeout | undefined);
  const loss = lossOf(lease);
  if (loss !== undefined) {
    if (killer === undefined) say(shown(loss));
    return { code: LOST };
  }
  await lease.release().catch((error: unknown) => {
    say(`the lease ends by itself within ${secondsText(ttl)}: ${shown((error as Error).message)}`);
  });
  return ending;
}

/** The reason why the lease is no longer held. Undefined if the lease is held. */
function lossOf(lease: Lease): string | undefined {
  try {
    lease.assertHeld();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * The environment of the command. It has the token, but not the store's URL, which may contain a password.
 */
function environmentFor(lease: Lease): NodeJS.ProcessEnv {
  // Windows ignores the case of the names of variables.
  const others = Object.entries(process.env).filter(([name]) => !/^STRIPELOCK_STORE$/i.test(name));
  return { ...Object.fromEntries(others), STRIPELOCK_TOKEN: String(lease.token) };
}
