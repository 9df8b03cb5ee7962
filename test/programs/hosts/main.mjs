// Runs one check on the host that runs this, and prints `passed`, or why it failed. The argument is the check's name.
// Each check has a separate process: one that hangs or crashes says nothing about the others.

import { finished } from './support.mjs';
import * as leases from './leases.mjs';
import * as locks from './locks.mjs';
import * as modules from './modules.mjs';
import * as processes from './processes.mjs';
import * as threads from './threads.mjs';
import * as traces from './traces.mjs';

/** @type {Record<string, () => unknown>} */
const checks = { ...leases, ...locks, ...modules, ...processes, ...threads, ...traces };

/** @type {unknown[]} */
const warnings = [];
process.on('warning', (warning) => warnings.push(warning.message));

try {
  const name = process.argv[2] ?? '';
  const check = checks[name];
  if (!Object.hasOwn(checks, name) || check === undefined) throw new Error('there is no such check');
  await check();
  const { warned } = finished;
  const ofOurs = () => warnings.filter((message) => /stripelock|addon/.test(String(message)));
  // Warnings come on a later turn of the event loop. A host may take longer for one that is expected.
  do await new Promise((resolve) => setTimeout(resolve, 1));
  while (warned !== undefined && ofOurs().length === 0);
  const ours = ofOurs();
  const wrong = warned === undefined ? ours : ours.filter((message) => !warned.test(String(message)));
  if (wrong.length > 0) throw new Error(`warned: ${wrong.join('; ')}`);
  if (warned !== undefined && ours.length !== 1) throw new Error(`warned ${ours.length} times`);
  console.log('passed');
} catch (error) {
  const { stack, message } = /** @type {Error} */ (error);
  console.log(`failed: ${message}`);
  console.error(stack);
}
// Some checks leave threads behind that the host cannot end.
if (!finished.byItself) process.exit(0);
