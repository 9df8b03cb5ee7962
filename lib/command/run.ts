import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process';
import { once } from 'node:events';
import { fstatSync, readdirSync, statSync, type BigIntStats } from 'node:fs';
import { constants } from 'node:os';
import { LockTimeoutError } from '../common/errors.js';
import { clearTimeout, performance, setTimeout } from '../common/host.js';
import { terminalSignals } from '../engine/select.js';
import type { ProcessGuard } from '../process/guard.js';
import { ProcessLock } from '../process/process-lock.js';
import type { RunRequest } from './arguments.js';
import { nameOf, processText, say, secondsText, timeText } from './words.js';

/** How the command ended, and so how this process ends. */
export interface Ending {
  readonly code: number;
  /** The signal that ended the command. */
  readonly signal?: NodeJS.Signals;
}

/** Runs a program under the lock. */
export async function run(request: RunRequest): Promise<Ending> {
  // The title that other processes see as the holder: the command, because they wait for it.
  process.title = ['stripelock', 'run', '--', ...request.command].join(' ');
  const lock = new ProcessLock({ path: request.path });
  const guard = await acquire(lock, request);
  if (guard === undefined) return { code: request.conflictExitCode };
  const ending = await runUnder(lock, request);
  // Explicit, because a grandchild that still runs may keep the descriptor open.
  guard.release();
  return ending;
}

async function acquire(lock: ProcessLock, request: RunRequest): Promise<ProcessGuard | undefined> {
  const { path, key, mode, timeout, verbose } = request;
  const asked = performance.now();
  const guard = lock.tryAcquire(key, { mode }) ?? (timeout > 0 ? await waitFor(lock, request) : undefined);
  const name = nameOf(path, key);
  const waited = secondsText(performance.now() - asked);
  if (guard === undefined) {
    const holders = holdersText(lock, key);
    say(`${name} is not free${timeout > 0 ? ` after ${waited}` : ''}${holders === '' ? '' : `: ${holders}`}`);
  } else {
    if (guard.abandoned) say(`the previous holder of ${name} died without releasing it`);
    if (verbose) say(`has ${name} after ${waited}`);
  }
  return guard;
}

/** Milliseconds until the first report of the holders that it waits for, and between later checks for changes. */
const FIRST_REPORT = 300;
const REPORT_INTERVAL = 1000;

/** Waits, and reports the holders that it waits for. Undefined after a timeout. */
async function waitFor(
  lock: ProcessLock,
  { path, key, mode, timeout }: RunRequest,
): Promise<ProcessGuard | undefined> {
  let reported = '';
  const report = (): void => {
    const holders = holdersText(lock, key);
    if (holders !== '' && holders !== reported) say(`waits for ${nameOf(path, key)}: ${holders}`);
    if (holders !== '') reported = holders;
    timer = setTimeout(report, REPORT_INTERVAL);
  };
  let timer = setTimeout(report, FIRST_REPORT);
  try {
    return await lock.acquire(key, { mode, timeout });
  } catch (error) {
    if (error instanceof LockTimeoutError) return undefined;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** The maximum number of holders that a message lists. */
const NAMED = 3;

/** Empty if no holder is known. */
function holdersText(lock: ProcessLock, key: string): string {
  let holders;
  try {
    holders = lock.inspect().find((each) => each.key === key)?.holders ?? [];
  } catch {
    // The acquisition itself reports what is wrong with the file.
    return '';
  }
  const named = holders
    .slice(0, NAMED)
    .map((holder) => `${processText(holder)} has held it since ${timeText(holder.since)}`);
  const more = holders.length > NAMED ? [`${holders.length - NAMED} more hold it, too`] : [];
  return [...named, ...more].join('; ');
}

/**
 * The child inherits the open lock file: the kernel keeps the lock as long as any process has that file open, even if
 * this process was killed. The child uses the same descriptor numbers as this process. They stay in use while the child
 * starts, so libuv cannot use one of them for its own pipe and write into the file.
 */
function streamsFor(path: string): StdioOptions {
  const streams: (number | 'inherit' | 'ignore')[] = ['inherit', 'inherit', 'inherit'];
  for (const descriptor of descriptorsOf(path)) {
    while (streams.length <= descriptor) streams.push('ignore');
    streams[descriptor] = descriptor;
  }
  return streams;
}

/**
 * The descriptors with which this process has the file open. There are several if it runs under another lock of that
 * file, which also stays held, or if the keys are spread over several files. Windows frees locks with their process,
 * but Node's child processes end with it there.
 */
function descriptorsOf(path: string): number[] {
  if (process.platform === 'win32') return [];
  const files: BigIntStats[] = [];
  for (let name = path; ; name = `${path}.${files.length}`) {
    const file = statSync(name, { bigint: true, throwIfNoEntry: false });
    if (file === undefined) break;
    files.push(file);
  }
  const found = readdirSync('/dev/fd')
    .map(Number)
    .filter((descriptor) => {
      try {
        const { dev, ino } = fstatSync(descriptor, { bigint: true });
        return files.some((file) => dev === file.dev && ino === file.ino);
      } catch {
        // The descriptor of the folder being read.
        return false;
      }
    });
  if (found.length === 0) throw new Error(`${path} was deleted or replaced`);
  return found;
}

async function runUnder(lock: ProcessLock, { command, verbose }: RunRequest): Promise<Ending> {
  const [program, ...args] = command;
  const stdio = streamsFor(lock.path);
  const running: Running = {};
  // Registered before the command starts, so that no signal ends only this process.
  forwardSignals(running);
  try {
    running.child = spawn(program, args, { stdio });
    const [code, signal] = (await once(running.child, 'exit')) as [number | null, NodeJS.Signals | null];
    if (verbose) say(signal === null ? `the command ended with code ${code}` : `${signal} ended the command`);
    return signal === null ? { code: code! } : { code: 128 + constants.signals[signal], signal };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    say(`cannot run ${JSON.stringify(program)}: ${code === 'ENOENT' ? 'there is no such command' : message}`);
    return { code: code === 'ENOENT' ? 127 : 126 };
  }
}

interface Running {
  child?: ChildProcess;
}

const FORWARDED: readonly NodeJS.Signals[] = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2'];
/** A terminal sends these to all processes of its foreground process group, which includes the command. */
const TERMINAL_SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT'];

/**
 * Forwards each signal, unless it came from a terminal: a second SIGINT makes many programs end without cleaning up.
 */
function forwardSignals(running: Running): void {
  const terminal = terminalSignals();
  for (const signal of FORWARDED.filter((name) => name in constants.signals)) {
    const number = constants.signals[signal];
    const mayBeOfTerminal = TERMINAL_SIGNALS.includes(signal);
    process.on(signal, () => {
      if (!(mayBeOfTerminal && terminal.take(number))) running.child?.kill(signal);
    });
    if (mayBeOfTerminal) terminal.count(number);
  }
}
