import type { StdioOptions } from 'node:child_process';
import { fstatSync, readdirSync, statSync, type BigIntStats } from 'node:fs';
import { LockTimeoutError } from '../common/errors.js';
import { performance } from '../common/host.js';
import type { ProcessGuard } from '../process/guard.js';
import { ProcessLock } from '../process/process-lock.js';
import type { FileRunRequest } from './arguments.js';
import { runChild, type Ending } from './child.js';
import { reportHolders } from './waiting.js';
import { nameOf, processText, say, secondsText, showCommand, timeText } from './words.js';

/** Runs a program under a lock file. */
export async function run(request: FileRunRequest): Promise<Ending> {
  showCommand(request.command);
  const { path, limit, access } = request;
  const lock = new ProcessLock({ path, limit, access });
  const guard = await acquire(lock, request);
  if (guard === undefined) return { code: request.conflictExitCode };
  const ending = await runChild({ ...request, stdio: streamsFor(lock.path) });
  // The release is explicit, because a grandchild that still runs may keep the descriptor open, and
  // would then keep the lock held.
  guard.release();
  return ending;
}

async function acquire(lock: ProcessLock, request: FileRunRequest): Promise<ProcessGuard | undefined> {
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

/** Milliseconds between checks for other holders. Each check reads the lock file. */
const REPORT_INTERVAL = 1000;

/** Waits for the lock, and reports its holders in the meantime. Undefined after a timeout. */
async function waitFor(
  lock: ProcessLock,
  { path, key, mode, timeout }: FileRunRequest,
): Promise<ProcessGuard | undefined> {
  const stop = reportHolders(nameOf(path, key), REPORT_INTERVAL, () => holdersText(lock, key));
  try {
    return await lock.acquire(key, { mode, timeout });
  } catch (error) {
    if (error instanceof LockTimeoutError) return undefined;
    throw error;
  } finally {
    stop();
  }
}

/** The maximum number of holders that a message lists. */
const NAMED = 3;

/** Describes the holders of a key. Empty if no holder is known. */
function holdersText(lock: ProcessLock, key: string): string {
  let holders;
  try {
    holders = lock.inspect().find((each) => each.key === key)?.holders ?? [];
  } catch {
    // The acquisition itself reports any problem of the file.
    return '';
  }
  const named = holders
    .slice(0, NAMED)
    .map((holder) => `${processText(holder)} has held it since ${timeText(holder.since)}`);
  const more = holders.length > NAMED ? [`${holders.length - NAMED} more hold it, too`] : [];
  return [...named, ...more].join('; ');
}

/**
 * The streams for a child that inherits the open lock file. The kernel keeps the lock as long as any process
 * has that file open, even if this process was killed. The child uses the same descriptor numbers as this
 * process. These numbers stay in use while the child starts. So libuv cannot use one of them for its own
 * pipe, and write into the file.
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
 * The descriptors with which this process has the lock file open. There are several if the keys are spread
 * over several files. There are also several if this process itself runs under another lock of the file. It
 * has then inherited the descriptor of that lock, which also stays held. On Windows there are none: a
 * process's locks are freed when the process ends, and Node's child processes end together with it.
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
        // This was the descriptor of the listed folder itself, which is closed after reading.
        return false;
      }
    });
  if (found.length === 0) throw new Error(`${path} was deleted or replaced`);
  return found;
}
