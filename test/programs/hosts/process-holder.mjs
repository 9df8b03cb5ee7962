// Holds a key of the file that is its argument until it is killed.

import { ProcessLock } from 'stripelock/process';

const lock = new ProcessLock({ path: process.argv[2] ?? '' });
globalThis.held = await lock.acquire('key');
console.log('held');
setInterval(() => undefined, 1000);
