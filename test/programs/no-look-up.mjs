// Takes its first native lock in the main thread and in a worker. Prints, for each, what Node's loader was asked to find
// meanwhile, the binaries in its cache, the code of the error with which a binary from there refuses to start again, and
// whether Node has loaded its cryptography.
import { once } from 'node:events';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Worker, isMainThread, parentPort } from 'node:worker_threads';

const require = createRequire(import.meta.url);
const loader = require('node:module');

const { StripedLock } = await import('stripelock');

const looks = [];
const original = loader._resolveFilename;
loader._resolveFilename = (name, ...rest) => {
  looks.push(name);
  return original(name, ...rest);
};
new StripedLock({ engine: 'native' }).acquireSync('key').release();
loader._resolveFilename = original;

const binaries = Object.keys(require.cache).filter((file) => file.endsWith('.node'));
const again = binaries.map((file) => {
  try {
    return require(file).start(0, () => undefined);
  } catch (error) {
    return error.code;
  }
});
const crypto = process.moduleLoadList.includes('NativeModule crypto');
const own = { looks, binaries: binaries.map((file) => path.basename(file)), again, crypto };
if (isMainThread) {
  const [theirs] = await once(new Worker(new URL(import.meta.url)), 'message');
  console.log(JSON.stringify([own, theirs]));
} else {
  parentPort.postMessage(own);
}
