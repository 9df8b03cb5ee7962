import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';

/** Emits a warning of this package. */
export function warn(code: string, message: string): void {
  process.emitWarning(message, { type: 'StripelockWarning', code });
}

/** Emits a warning once per process, not once per thread: workers inherit their parent's environment data. */
export function warnOnce(code: string, message: string): void {
  const warned = `stripelock: warned of ${code}`;
  if (getEnvironmentData(warned) === true) return;
  setEnvironmentData(warned, true);
  warn(code, message);
}
