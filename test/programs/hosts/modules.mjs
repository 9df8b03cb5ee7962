// How the package is loaded.

import { createRequire } from 'node:module';
import * as imported from 'stripelock';
import { check, codeOf, finished } from './support.mjs';

const require = createRequire(import.meta.url);

export async function modules() {
  const required = require('stripelock');
  check(required.StripedLock === imported.StripedLock, 'import and require give two classes');
  check(required.LockTimeoutError === imported.LockTimeoutError, 'import and require give two errors');
  for (const { StripedLock } of [imported, required]) {
    const lock = new StripedLock();
    check(lock.engine === 'native', `the engine is ${lock.engine}`);
    lock.withLockSync('a', () => undefined);
  }
  for (const subpath of ['file', 'redis', 'sqlite', 'testing', 'web-locks']) {
    const module = await import(`stripelock/${subpath}`);
    check(Object.keys(module).length > 0, `stripelock/${subpath} has nothing`);
    check(require(`stripelock/${subpath}`) !== undefined, `require('stripelock/${subpath}') gives nothing`);
  }
}

/** Each installation has a separate addon, with queues of its own. */
export async function otherInstallation() {
  const lock = new imported.StripedLock();
  // A name that the types do not look for.
  const name = 'other-stripelock';
  const other = await import(/** @type {string} */ (name));
  check(new other.StripedLock().engine === 'native', 'the other one has no native engine');
  const code = await codeOf(() => other.StripedLock.from(lock.handle));
  check(code === 'ERR_LOCK_ENGINE', `it opened the lock, or failed with ${String(code)}`);
  lock.acquireSync('a').release();
}

/** The host runs this check without the permission to load an addon, and without one to read the environment. */
export async function refusedAddon() {
  const lock = new imported.StripedLock();
  check(lock.engine === 'javascript', 'the host has loaded the addon');
  check((await lock.withLock(['a', 'b'], () => 7)) === 7, 'the result is lost');
  finished.warned = /prebuilds\/[^\n]*(requires ffi access|disabled)/i;
}
