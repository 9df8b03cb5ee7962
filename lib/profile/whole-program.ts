import path from 'node:path';
import { isMainThread, threadId } from 'node:worker_threads';
import { startProfiler, type Profiler } from './profiler.js';

/** The signal that makes the program write the profile. Node itself uses SIGUSR1. */
const SIGNAL = 'SIGUSR2';

/**
 * Profiles the whole program until this thread ends, unless another profile is running. The file is
 * written when the thread ends. In the main thread, the file is also written at each `SIGNAL`. Other
 * threads add their id to the file's name.
 */
export function profileWholeProgram(file: string): void {
  let profiler: Profiler;
  try {
    profiler = startProfiler({});
  } catch (error) {
    // Another thread already profiles all threads.
    if ((error as { code?: unknown }).code === 'ERR_LOCK_PROFILE') return;
    throw error;
  }
  const { dir, base } = path.parse(path.resolve(file));
  const name = isMainThread ? base : base.replace(/(?=\.|$)/, `.thread-${threadId}`);
  const write = (): void => {
    try {
      profiler.snapshot().write(path.join(dir, name));
    } catch (error) {
      // This is not a process warning: Node prints warnings asynchronously, which is
      // too late when the process exits.
      process.stderr.write(`STRIPELOCK_PROFILE: the profile could not be written: ${String(error)}\n`);
    }
  };
  process.on('exit', write);
  if (isMainThread && process.platform !== 'win32') process.on(SIGNAL, write);
}
