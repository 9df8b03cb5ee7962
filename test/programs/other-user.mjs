// Opens a lock file as another user, takes a key, and prints what happened. Arguments: the user's number, and the options of the
// lock as JSON. Needs root.

import { KeyedLock } from 'stripelock';
import { ProcessLock } from 'stripelock/process';

const [user, options] = process.argv.slice(2);
// Loads the addon, which the other user may not be able to read.
new KeyedLock().acquireSync('').release();
process.setgroups?.([]);
process.setgid?.(Number(user));
process.setuid?.(Number(user));
process.umask(0);
try {
  const lock = new ProcessLock(JSON.parse(options ?? ''));
  const guard = lock.tryAcquire('key');
  console.log(guard === undefined ? 'refused' : 'granted');
} catch (error) {
  const { code, message } = /** @type {import('stripelock').LockError} */ (error);
  console.log(`${code} ${message}`);
}
