// Uses the named locks of one manager as messages say, and answers each. Posts what its requests are told. See
// test/engine/native/named-agent.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { modeNamed } from '../../unbundled/engine/contract/mode.js';
import { nativeNamedEngine } from '../../unbundled/engine/select.js';

const locks = nativeNamedEngine().open(workerData.manager);
const requesters = new Map();

/** Reports what it is told. */
class Requester {
  ticket = -1;
  constructor(key) {
    this.key = key;
  }
  granted() {
    parentPort.postMessage({ told: 'granted', key: this.key });
  }
  stolen() {
    parentPort.postMessage({ told: 'stolen', key: this.key });
  }
}

const methods = {
  request: (key, name, mode, how) => {
    const requester = new Requester(key);
    requesters.set(key, requester);
    return locks.request(name, modeNamed(mode), how, requester);
  },
  cancel: (key) => locks.cancel(requesters.get(key)),
  release: (key) => locks.release(requesters.get(key)),
  // Blocks its event loop.
  compute: () => {
    parentPort.postMessage({ id: 'computing' });
    for (;;);
  },
  return: () => parentPort.close(),
  throw: () => {
    throw new Error('the end of a thread, on purpose');
  },
  reject: () => void Promise.reject(new Error('the end of a thread, on purpose')),
  exit: () => process.exit(7),
};

parentPort.on('message', ({ id, method, args }) => {
  parentPort.postMessage({ id, result: methods[method](...args) });
});
