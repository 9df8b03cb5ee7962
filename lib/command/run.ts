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

/** How a command ended, and so this one. */
export interface Ending {
  readonly code: number;
  /** The signal that ended it. */
  readonly signal?: NodeJS.Signals;
}

/** Runs a program under the lock. */
export async function run(request: RunRequest): Promise<Ending> {
  // What others are shown of this process: the command, since they wait for that.
  process.title = ['stripelock', 'run', '--', ...request.command].join(' ');
  const lock = new ProcessLock({ path: request.path });
  const guard = await acquire(lock, request);
  if (guard === undefined) return { code: request.conflictExitCode };
  const ending = await runUnder(lock, request);
  // Explicitly: a grandchild that was left behind may still have the descriptor.
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
    const whom = holdersText(lock, key);
    say(`${name} is not free${timeout > 0 ? ` after ${waited}` : ''}${whom === '' ? '' : `: ${whom}`}`);
  } else {
    if (guard.abandoned) say(`whoever held ${name} before died without releasing it`);
    if (verbose) say(`has ${name} after ${waited}`);
  }
  return guard;
}

/** Milliseconds of waiting after which it says for whom, and between looks whether that has changed. */
const FIRST_LOOK = 300;
const NEXT_LOOK = 1000;

/** Says meanwhile for whom it waits. Undefined if time ran out. */
async function waitFor(
  lock: ProcessLock,
  { path, key, mode, timeout }: RunRequest,
): Promise<ProcessGuard | undefined> {
  let told = '';
  const look = (): void => {
    const whom = holdersText(lock, key);
    if (whom !== '' && whom !== told) say(`waits for ${nameOf(path, key)}: ${whom}`);
    if (whom !== '') told = whom;
    timer = setTimeout(look, NEXT_LOOK);
  };
  let timer = setTimeout(look, FIRST_LOOK);
  try {
    return await lock.acquire(key, { mode, timeout });
  } catch (error) {
    if (error instanceof LockTimeoutError) return undefined;
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/** Holders that a message names. */
const NAMED = 3;

/** Empty if nobody holds it, or nobody can tell. */
function holdersText(lock: ProcessLock, key: string): string {
  let holders;
  try {
    holders = lock.inspect().find((each) => each.key === key)?.holders ?? [];
  } catch {
    // What is wrong with the file, the acquisition says.
    return '';
  }
  const named = holders
    .slice(0, NAMED)
    .map((holder) => `${processText(holder)} has held it since ${timeText(holder.since)}`);
  const more = holders.length > NAMED ? [`${holders.length - NAMED} more hold it, too`] : [];
  return [...named, ...more].join('; ');
}

/**
 * The child has the file of the lock open, too: as long as any process has that open file, the kernel keeps the lock, also if
 * this process was killed. The numbers are the same as here. They are in use while the child starts, so that nothing of
 * libuv's is there, such as the pipe that tells of a program that does not exist: it would write that into the file.
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
 * Where this process has the file open. More than once if it runs under another lock of that file, which stays held, too, or
 * spreads its keys over several files. Windows frees locks with their process, but Node's children end with theirs there.
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
        // It was that of the folder.
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
  // Before it starts, so that none ends this process alone.
  passOnSignals(running);
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

const PASSED_ON: readonly NodeJS.Signals[] = ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2'];
/** A terminal sends these to all processes of its foreground process group, which the command is in, too. */
const OF_TERMINALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGQUIT'];

/** Passes each signal on, unless a terminal has sent it: many programs end without cleaning up after a second SIGINT. */
function passOnSignals(running: Running): void {
  const terminal = terminalSignals();
  for (const signal of PASSED_ON.filter((name) => name in constants.signals)) {
    const number = constants.signals[signal];
    const mayBeOfTerminal = OF_TERMINALS.includes(signal);
    process.on(signal, () => {
      if (!(mayBeOfTerminal && terminal.take(number))) running.child?.kill(signal);
    });
    if (mayBeOfTerminal) terminal.count(number);
  }
}
