import path from 'node:path';
import { isMainThread, threadId } from 'node:worker_threads';
import { startProfiler, type Profiler } from './profiler.js';

/** On demand. Node itself uses SIGUSR1. */
const SIGNAL = 'SIGUSR2';

/**
 * Takes a profile until this thread ends, unless one is being taken, and writes it to that file then; and, in the main thread,
 * whenever the process gets the signal. Another thread adds its id to the name of the file.
 */
export function profileWholeProgram(file: string): void {
  let profiler: Profiler;
  try {
    profiler = startProfiler({});
  } catch (error) {
    // Another thread takes it, for all.
    if ((error as { code?: unknown }).code === 'ERR_LOCK_PROFILE') return;
    throw error;
  }
  const { dir, base } = path.parse(path.resolve(file));
  const name = isMainThread ? base : base.replace(/(?=\.|$)/, `.thread-${threadId}`);
  const write = (): void => {
    try {
      profiler.snapshot().write(path.join(dir, name));
    } catch (error) {
      // Not as a warning, which would come after the end.
      process.stderr.write(`STRIPELOCK_PROFILE: the profile could not be written: ${String(error)}\n`);
    }
  };
  process.on('exit', write);
  if (isMainThread && process.platform !== 'win32') process.on(SIGNAL, write);
}
