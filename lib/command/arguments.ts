import { homedir } from 'node:os';
import path from 'node:path';
import { parseArgs, type ParseArgsConfig } from 'node:util';
import type { LockMode } from '../common/types.js';

/** A parsed command line of `stripelock`. */
export type Request = RunRequest | InspectRequest | { readonly what: 'help' | 'version' };

export interface RunRequest {
  readonly what: 'run';
  readonly path: string;
  readonly key: string;
  readonly mode: LockMode;
  /** Milliseconds to wait; 0 makes one attempt. */
  readonly timeout: number;
  /** The exit code if the lock was not acquired in time. */
  readonly conflictExitCode: number;
  readonly verbose: boolean;
  /** The program and its arguments. */
  readonly command: readonly [string, ...string[]];
}

export interface InspectRequest {
  readonly what: 'inspect';
  readonly path: string;
  readonly json: boolean;
}

/** The exit code if `stripelock` itself failed, as in `env`, `nice` and `timeout`. */
export const FAILED = 125;
/**
 * The exit code that mail programs use for "try again later". Few programs use it, so it shows that `stripelock` ended.
 */
const CONFLICT = 75;

export const HELP = `Usage:
  stripelock run [options] -- command [arguments]   run a command under a lock
  stripelock inspect [--path file] [--json]         show who holds and who waits
  stripelock --version                              print the version

The lock is freed when the command has ended, however it ends.

Options of run:
  --path file                the file of the lock, on a local disk; it is made if it is missing
                             (default: .cache/stripelock/run.lock in the home folder)
  --key text                 what is locked in that file; other keys are free
                             (default: the empty key, or without --path the current folder)
  --shared                   together with others that say --shared
  --timeout time             wait no longer than this: 500ms, 30s, 5m, 1h; a number alone is seconds
                             (default: no limit)
  --no-wait                  do not wait
  --conflict-exit-code n     the exit code if the lock was not free in time (default: ${CONFLICT})
  --verbose                  say when it has the lock, and how the command ended

Exit codes of run: that of the command, or 128 and the number of the signal that ended it; ${CONFLICT} if the lock was not
free in time; 127 if there is no such command, 126 if it cannot be run; ${FAILED} for everything else.
`;

/** The arguments are invalid. */
export class UsageError extends Error {}

/** The file of all locks for which the user names none: the same from a shell, a cron job and a service. */
export const defaultPath = (): string => path.join(homedir(), '.cache', 'stripelock', 'run.lock');

/** @throws UsageError */
export function parse(args: readonly string[]): Request {
  const [what, ...rest] = args;
  if (what === undefined) throw new UsageError('name a subcommand: run or inspect');
  const end = rest.indexOf('--');
  const options = end < 0 ? rest : rest.slice(0, end);
  if (['help', '--help', '-h'].includes(what) || options.some((each) => each === '--help' || each === '-h'))
    return { what: 'help' };
  if (what === '--version' && rest.length === 0) return { what: 'version' };
  if (what === 'run') return parseRun(options, end < 0 ? [] : rest.slice(end + 1));
  if (what === 'inspect') return parseInspect(rest);
  throw new UsageError(`${JSON.stringify(what)} is neither run nor inspect`);
}

function parseRun(args: string[], command: string[]): RunRequest {
  const values = optionsIn(args, {
    path: { type: 'string' },
    key: { type: 'string' },
    shared: { type: 'boolean', default: false },
    timeout: { type: 'string' },
    'no-wait': { type: 'boolean', default: false },
    'conflict-exit-code': { type: 'string', default: String(CONFLICT) },
    verbose: { type: 'boolean', default: false },
  });
  const { path: file, timeout, 'no-wait': never } = values;
  const [program, ...rest] = command;
  if (program === undefined) throw new UsageError('name a command after --, as in: stripelock run -- make');
  if (never && timeout !== undefined) throw new UsageError('choose one of --timeout and --no-wait');
  return {
    what: 'run',
    path: path.resolve(file ?? defaultPath()),
    key: values.key ?? (file === undefined ? process.cwd() : ''),
    mode: values.shared ? 'shared' : 'exclusive',
    timeout: never ? 0 : timeout === undefined ? Infinity : millisecondsIn(timeout),
    conflictExitCode: exitCodeIn(values['conflict-exit-code']),
    verbose: values.verbose,
    command: [program, ...rest],
  };
}

function parseInspect(args: string[]): InspectRequest {
  const values = optionsIn(args, { path: { type: 'string' }, json: { type: 'boolean', default: false } });
  return { what: 'inspect', path: path.resolve(values.path ?? defaultPath()), json: values.json };
}

type Options = NonNullable<ParseArgsConfig['options']>;

function optionsIn<const O extends Options>(args: string[], options: O) {
  try {
    return parseArgs({ args, options, strict: true, allowPositionals: false }).values;
  } catch (error) {
    // The second sentence explains positional arguments, which do not exist here.
    throw new UsageError((error as Error).message.split(/\. |\n/)[0], { cause: error });
  }
}

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

function millisecondsIn(text: string): number {
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text) ?? [];
  if (number === undefined)
    throw new UsageError(`--timeout must be a time such as 500ms, 30s or 5m, not ${JSON.stringify(text)}`);
  return Number(number) * UNITS[unit as keyof typeof UNITS];
}

function exitCodeIn(text: string): number {
  if (/^\d{1,3}$/.test(text) && Number(text) <= 255) return Number(text);
  throw new UsageError(`--conflict-exit-code must be a number from 0 to 255, not ${JSON.stringify(text)}`);
}
