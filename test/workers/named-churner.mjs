// Requests, releases, cancels and steals named locks without end, until it is terminated. Reports when it has begun.
import { parentPort, workerData } from 'node:worker_threads';
import { EXCLUSIVE_MODE, SHARED_MODE } from '../../unbundled/engine/contract/mode.js';
import { nativeNamedEngine } from '../../unbundled/engine/select.js';
import { below, randomFrom } from './random.mjs';

const { manager, seed, names } = workerData;
const random = randomFrom(seed);
const locks = nativeNamedEngine().open(manager);
const own = [];

class Requester {
  ticket = -1;
  granted() {}
  stolen() {
    own.splice(own.indexOf(this), 1);
  }
}

function act() {
  if (own.length < 8 && random() < 0.5) {
    const requester = new Requester();
    const mode = random() < 0.5 ? SHARED_MODE : EXCLUSIVE_MODE;
    const how = mode === EXCLUSIVE_MODE && random() < 0.1 ? 'steal' : random() < 0.2 ? 'ifAvailable' : 'wait';
    const status = locks.request(`name ${below(random, names)}`, mode, how, requester);
    requester.pending = status === 'pending';
    if (status !== 'unavailable') own.push(requester);
  } else if (own.length > 0) {
    const [requester] = own.splice(below(random, own.length), 1);
    if (!requester.pending || !locks.cancel(requester)) locks.release(requester);
  }
}

parentPort.postMessage('begun');
for (let i = 0; ; i++) {
  act();
  // News comes between the steps of microtasks, and from the event loop.
  if (i % 10 === 0) await undefined;
  if (i % 100 === 0) await new Promise((resolve) => setImmediate(resolve));
}
