import { fromEnvironment } from '../common/environment.js';
import { warn } from '../common/warnings.js';
import { programFile } from './program-file.js';
import type * as WholeProgramModule from './whole-program.js';

type WholeProgram = typeof WholeProgramModule;

let isStarted = false;

/**
 * Starts a profile of the whole program if the environment variable `STRIPELOCK_PROFILE` contains the name of
 * a file for the profile. Each lock that is opened calls this, and each `LeaseManager`. Only the first call
 * in a thread reads the environment. The profiler's code is loaded only on request.
 */
export function startRequestedProfile(): void {
  if (isStarted) return;
  isStarted = true;
  const file = fromEnvironment(({ STRIPELOCK_PROFILE }) => STRIPELOCK_PROFILE);
  if (file === undefined || file === '') return;
  import(programFile())
    .then(({ profileWholeProgram }: WholeProgram) => profileWholeProgram(file))
    .catch((error: unknown) => {
      warn('STRIPELOCK_NO_PROFILE', `STRIPELOCK_PROFILE: ${String(error)}`);
    });
}
