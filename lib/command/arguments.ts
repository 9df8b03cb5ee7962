import { constants, homedir } from 'node:os';
import path from 'node:path';
import { parseArgs, type ParseArgsConfig } from 'node:util';
import type { LockMode } from '../common/types.js';
import { DEFAULT_TTL } from '../lease/contract/options.js';
import { MAX_TTL } from '../lease/contract/lease-store.js';
import { DEFAULT_LISTED, MAX_LISTED } from '../lease/contract/listing.js';
import { MAX_LIMIT } from '../lease/contract/slots.js';
import { isFileAccess, MOST_PERMITS, resolvePath, type FileAccess } from '../process/options.js';

/** A parsed command line of `stripelock`. */
export type Request = FileRunRequest | StoreRunRequest | LeasesRequest | PlainRequest;

/** A request that only prints something. */
export type PlainRequest = InspectRequest | { readonly what: 'help' | 'version' };

/** The common part of a request to run a command under a key. */
export interface RunRequest {
  readonly key: string;
  /** The maximum number of commands that run under the key at once. */
  readonly limit: number;
  readonly mode: LockMode;
  /** Milliseconds to wait; 0 makes one attempt. */
  readonly timeout: number;
  /** The exit code if the key was not acquired in time. */
  readonly conflictExitCode: number;
  readonly verbose: boolean;
  /** The program and its arguments. */
  readonly command: readonly [string, ...string[]];
}

/** A command to run under a key of a lock file. */
export interface FileRunRequest extends RunRequest {
  readonly what: 'run';
  readonly path: string;
  readonly access: FileAccess;
}

/** A command to run under a lease of a store. Times are in milliseconds. */
export interface StoreRunRequest extends RunRequest {
  readonly what: 'run with a lease';
  /** The URL of the store, which may contain a password. */
  readonly store: string;
  readonly ttl: number;
  readonly minHold: number;
  /** The signal that the command gets when the lease is lost. */
  readonly onLoss: NodeJS.Signals;
  /** The time from that signal to SIGKILL. */
  readonly grace: number;
}

export interface InspectRequest {
  readonly what: 'inspect';
  readonly path: string;
  readonly access: FileAccess;
  readonly json: boolean;
}

/** A request about leases of a store. `store` is the URL of the store, which may contain a password. */
export type LeasesRequest =
  | (LeasesTerms & { readonly what: 'leases list'; readonly prefix: string; readonly limit: number })
  | (LeasesTerms & { readonly what: 'leases inspect'; readonly key: string })
  | (LeasesTerms & { readonly what: 'leases revoke'; readonly key: string; readonly yes: boolean });

interface LeasesTerms {
  readonly store: string;
  readonly json: boolean;
}

/** The exit code if `stripelock` itself failed, as in `env`, `nice` and `timeout`. */
export const FAILED = 125;
/**
 * The exit code if the key was not acquired in time. Mail programs use this code for "try again later". Few
 * other programs use it, so it shows that the code is from `stripelock`.
 */
const CONFLICT = 75;
/** The exit code if the lease was lost while the command ran. Few other programs use this code. */
export const LOST = 76;
const DEFAULT_GRACE = 10_000;
/** The minimum TTL in milliseconds. A shorter lease could expire while its first renewal is in flight. */
const MIN_TTL = 1000;

export const HELP = `Usage:
  stripelock run [options] -- command [arguments]   run a command under a lock file, or under a lease of a store
  stripelock inspect [options]                      show who holds and who waits
  stripelock leases list [options]                  show the leases of a store
  stripelock leases inspect [options] key           show the lease of a key
  stripelock leases revoke [options] key            end the lease of a key
  stripelock --version                              print the version

The lock or the lease is freed when the command has ended, however it ends.

Options of run and inspect:
  --path file                the file of the lock, on a local disk, or its URL; run makes it if it is missing
                             (default: .cache/stripelock/run.lock in the home folder)
  --access user|group|all    the users that share the file (default: user)

Options of run:
  --key text                 what is locked in that file; other keys are free
                             (default: the empty key, or without --path the current folder)
  --shared                   together with other commands that say --shared, and not with those that do not
  --limit n                  up to n at once, 1 to ${MOST_PERMITS}; all commands that use the file must say the same number
                             (default file: .cache/stripelock/run-limit-n.lock)
  --timeout time             wait no longer than this: 500ms, 30s, 5m, 1h; a number alone is seconds
                             (default: no limit)
  --no-wait, --if-available  do not wait
  --conflict-exit-code n     the exit code if the lock was not free in time (default: ${CONFLICT})
  --verbose                  say when it has the lock, and how the command ended

Options of run with a lease, beside --shared, --timeout, --no-wait, --conflict-exit-code and --verbose:
  --store url                the store, as for leases; without --path, STRIPELOCK_STORE in the environment does the same
  --key text                 the key of the lease; needed
  --limit n                  up to n at once, 1 to ${MAX_LIMIT}, by the same number in all commands
  --ttl time                 the lease ends so long after the last renewal, also if this machine dies (default: ${DEFAULT_TTL / 1000}s)
  --min-hold time            no other machine gets the key sooner after the start, even if the command is done
  --on-loss signal           sent to the command when the lease is lost (default: SIGTERM)
  --grace time               from that signal to SIGKILL (default: ${DEFAULT_GRACE / 1000}s)

Options of inspect:
  --json                     print JSON

Options of leases:
  --store url                the store: redis://, rediss://, postgres://, postgresql://, mysql://, mongodb://,
                             mongodb+srv://, etcd:// or sqlite:file (default: STRIPELOCK_STORE in the environment,
                             which keeps a password out of the process list)
  --prefix text              of list: only keys that start with this
  --limit n                  of list: at most so many leases, up to ${MAX_LISTED} (default: ${DEFAULT_LISTED})
  --json                     print JSON
  --yes                      of revoke: do not ask; needed without a terminal

Exit codes of leases: 0; 1 if no owner holds the key, or nothing was revoked; ${FAILED} for everything else.
Exit codes of run: that of the command, or 128 and the number of the signal that ended it; ${CONFLICT} if the lock was not
free in time; ${LOST} if the lease was lost; 127 if there is no such command, 126 if it cannot be run; ${FAILED} for everything
else. The command gets the fencing token of its lease in STRIPELOCK_TOKEN, and not STRIPELOCK_STORE.
`;

const SHARED_AND_LIMIT = 'choose one of --shared and --limit';

/** The error for invalid arguments. */
export class UsageError extends Error {}

/**
 * The lock file for commands without `--path`. It is the same for a shell, a cron job and a service. A file
 * has one limit, so each limit has a separate file.
 */
export function defaultPath(limit: number): string {
  return path.join(homedir(), '.cache', 'stripelock', limit === 1 ? 'run.lock' : `run-limit-${limit}.lock`);
}

/** @throws UsageError */
export function parse(args: readonly string[]): Request {
  const [what, ...rest] = args;
  if (what === undefined) throw new UsageError('name a subcommand: run, inspect or leases');
  const end = rest.indexOf('--');
  const options = end < 0 ? rest : rest.slice(0, end);
  if (['help', '--help', '-h'].includes(what) || options.some((each) => each === '--help' || each === '-h'))
    return { what: 'help' };
  if (what === '--version' && rest.length === 0) return { what: 'version' };
  if (what === 'run') return parseRun(options, end < 0 ? [] : rest.slice(end + 1));
  if (what === 'inspect') return parseInspect(rest);
  if (what === 'leases') return parseLeases(rest);
  throw new UsageError(`${JSON.stringify(what)} is not a subcommand: use run, inspect or leases`);
}

function parseRun(args: string[], command: string[]): FileRunRequest | StoreRunRequest {
  const values = optionsIn(args, {
    path: { type: 'string' },
    access: { type: 'string' },
    shared: { type: 'boolean', default: false },
    store: { type: 'string' },
    ttl: { type: 'string' },
    'min-hold': { type: 'string' },
    'on-loss': { type: 'string' },
    grace: { type: 'string' },
    key: { type: 'string' },
    limit: { type: 'string', default: '1' },
    timeout: { type: 'string' },
    'no-wait': { type: 'boolean', default: false },
    'if-available': { type: 'boolean', default: false },
    'conflict-exit-code': { type: 'string', default: String(CONFLICT) },
    verbose: { type: 'boolean', default: false },
  });
  const { key, shared, timeout } = values;
  const [program, ...rest] = command;
  if (program === undefined) throw new UsageError('name a command after --, as in: stripelock run -- make');
  const never = values['no-wait'] || values['if-available'];
  if (never && timeout !== undefined) throw new UsageError('choose one of --timeout and --no-wait');
  const terms = {
    timeout: never ? 0 : timeout === undefined ? Infinity : millisecondsIn('--timeout', timeout),
    conflictExitCode: exitCodeIn(values['conflict-exit-code']),
    verbose: values.verbose,
    command: [program, ...rest] as const,
    mode: shared ? ('shared' as const) : ('exclusive' as const),
  };
  const store = storeOfRun(values);
  if (store === undefined) {
    refuse(values, ['ttl', 'min-hold', 'on-loss', 'grace'], 'needs a lease: name its store by --store');
    const limit = limitIn(values.limit, MOST_PERMITS);
    if (shared && limit > 1) throw new UsageError(SHARED_AND_LIMIT);
    const file = fileIn(values, limit);
    const ownKey = key ?? (values.path === undefined ? process.cwd() : '');
    return { what: 'run', ...file, ...terms, key: ownKey, limit };
  }
  refuse(values, ['access'], 'is for a lock file, and not for a store');
  if (key === undefined || key === '')
    throw new UsageError('name the key of the lease by --key, or a lock file by --path');
  const limit = limitIn(values.limit, MAX_LIMIT);
  if (shared && limit > 1) throw new UsageError(SHARED_AND_LIMIT);
  if (shared) refuse(values, ['min-hold'], 'is not for --shared');
  return {
    what: 'run with a lease',
    ...terms,
    store,
    key,
    limit,
    ttl: ttlIn(values.ttl),
    minHold: values['min-hold'] === undefined ? 0 : millisecondsIn('--min-hold', values['min-hold']),
    onLoss: signalIn(values['on-loss'] ?? 'SIGTERM'),
    grace: values.grace === undefined ? DEFAULT_GRACE : millisecondsIn('--grace', values.grace),
  };
}

/**
 * The store for `run`. Undefined for a lock file: `--path` selects a lock file, even if the environment names
 * a store.
 */
function storeOfRun({
  path: file,
  store,
}: {
  path?: string | undefined;
  store?: string | undefined;
}): string | undefined {
  if (file === undefined) return storeIn(store);
  if (store !== undefined) throw new UsageError('choose one of --path and --store');
  return undefined;
}

/** The store that `option` or otherwise the environment names. Undefined if neither names a store. */
function storeIn(option: string | undefined): string | undefined {
  const { STRIPELOCK_STORE } = process.env;
  const store = option ?? STRIPELOCK_STORE ?? '';
  if (store === '' && option !== undefined) throw new UsageError('--store is empty');
  return store === '' ? undefined : store;
}

function refuse(values: Readonly<Record<string, unknown>>, names: readonly string[], why: string): void {
  const given = names.find((name) => values[name] !== undefined && values[name] !== false);
  if (given !== undefined) throw new UsageError(`--${given} ${why}`);
}

function parseInspect(args: string[]): InspectRequest {
  const values = optionsIn(args, {
    ...FILE_OPTIONS,
    limit: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
  });
  return { what: 'inspect', ...fileIn(values, limitIn(values.limit, MOST_PERMITS)), json: values.json };
}

const FILE_OPTIONS = { path: { type: 'string' }, access: { type: 'string' } } as const;

function fileIn(
  { path: file, access = 'user' }: { path?: string | undefined; access?: string | undefined },
  limit: number,
): { path: string; access: FileAccess } {
  if (!isFileAccess(access))
    throw new UsageError(`--access must be user, group or all, not ${JSON.stringify(access)}`);
  return { path: file === undefined ? path.resolve(defaultPath(limit)) : pathIn(file), access };
}

/** Parses a path or a file URL. Both mean the same as in `options.path` of a ProcessLock. */
function pathIn(text: string): string {
  try {
    return resolvePath(/^file:/i.test(text) ? new URL(text) : text, 'the file');
  } catch (error) {
    throw new UsageError(`--path: ${(error as Error).message}`, { cause: error });
  }
}

function parseLeases([action, ...rest]: string[]): LeasesRequest {
  const isList = action === 'list';
  if (!isList && action !== 'inspect' && action !== 'revoke') {
    throw new UsageError('name what to do with leases: list, inspect or revoke');
  }
  const { values, positionals } = parsedFrom(rest, {
    store: { type: 'string' },
    json: { type: 'boolean', default: false },
    ...(isList && { prefix: { type: 'string' }, limit: { type: 'string' } }),
    ...(action === 'revoke' && { yes: { type: 'boolean' } }),
  });
  const store = storeIn(values['store']);
  if (store === undefined)
    throw new UsageError('name the store by --store, or by STRIPELOCK_STORE in the environment');
  const terms = { store, json: values['json'] };
  if (isList) {
    if (positionals.length > 0) throw new UsageError('leases list takes no key; --prefix chooses keys');
    const { prefix = '', limit = String(DEFAULT_LISTED) } = values as { prefix?: string; limit?: string };
    return { ...terms, what: 'leases list', prefix, limit: limitIn(limit, MAX_LISTED) };
  }
  const [key, ...more] = positionals;
  if (key === undefined || key === '' || more.length > 0)
    throw new UsageError(`leases ${action} takes one key`);
  if (action === 'inspect') return { ...terms, what: 'leases inspect', key };
  return { ...terms, what: 'leases revoke', key, yes: values['yes'] === true };
}

type Options = NonNullable<ParseArgsConfig['options']>;

function optionsIn<const O extends Options>(args: string[], options: O) {
  return orUsageError(() => parseArgs({ args, options, strict: true, allowPositionals: false }).values);
}

/** Parses options and positional arguments, such as a key. */
function parsedFrom<const O extends Options>(args: string[], options: O) {
  return orUsageError(() => parseArgs({ args, options, strict: true, allowPositionals: true }));
}

function orUsageError<T>(parsed: () => T): T {
  try {
    return parsed();
  } catch (error) {
    // Only the first sentence is shown. The second explains positional arguments, which do not exist here.
    throw new UsageError((error as Error).message.split(/\. |\n/)[0], { cause: error });
  }
}

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

function millisecondsIn(option: string, text: string): number {
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text) ?? [];
  const milliseconds = number === undefined ? NaN : Number(number) * UNITS[unit as keyof typeof UNITS];
  if (milliseconds <= MAX_TTL) return milliseconds;
  throw new UsageError(`${option} must be a time such as 500ms, 30s or 5m, not ${JSON.stringify(text)}`);
}

function ttlIn(text: string | undefined): number {
  const ttl = text === undefined ? DEFAULT_TTL : Math.round(millisecondsIn('--ttl', text));
  if (ttl < MIN_TTL) throw new UsageError(`--ttl must be at least ${MIN_TTL / 1000}s`);
  return ttl;
}

function signalIn(text: string): NodeJS.Signals {
  const name = text.toUpperCase().replace(/^(?:SIG)?/, 'SIG');
  if (Object.hasOwn(constants.signals, name)) return name as NodeJS.Signals;
  throw new UsageError(`--on-loss must be a signal such as SIGTERM or INT, not ${JSON.stringify(text)}`);
}

function limitIn(text: string, most: number): number {
  const limit = /^\d+$/.test(text) ? Number(text) : 0;
  if (limit >= 1 && limit <= most) return limit;
  throw new UsageError(`--limit must be a number from 1 to ${most}, not ${JSON.stringify(text)}`);
}

function exitCodeIn(text: string): number {
  if (/^\d{1,3}$/.test(text) && Number(text) <= 255) return Number(text);
  throw new UsageError(`--conflict-exit-code must be a number from 0 to 255, not ${JSON.stringify(text)}`);
}
