// Argument: a scenario, which runs in a worker. A scenario that is not finished when the worker's event loop ends prints
// nothing.
import { once } from 'node:events';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { EXCLUSIVE_MODE } from '../../unbundled/engine/contract/mode.js';
import { nativeNamedEngine } from '../../unbundled/engine/select.js';

class Requester {
  ticket = -1;
  granted() {
    console.log('granted');
  }
  stolen() {
    console.log('stolen');
  }
}

const request = (locks, name, how = 'wait') => {
  const requester = new Requester();
  requester.status = locks.request(name, EXCLUSIVE_MODE, how, requester);
  return requester;
};

/** What each does in the worker, while this thread holds `a` for a while. */
const scenarios = {
  pending: (locks) => void request(locks, 'a'),
  'cancelled at once': (locks) => console.log(locks.cancel(request(locks, 'a'))),
  held: (locks) => console.log(request(locks, 'b').status),
  unavailable: (locks) => console.log(request(locks, 'a', 'ifAvailable').status),
  'released before it is told': (locks) => {
    const held = request(locks, 'b');
    const waiting = request(locks, 'b');
    locks.release(held);
    locks.release(waiting);
    console.log('released');
  },
};

if (isMainThread) {
  const locks = nativeNamedEngine().open();
  const held = request(locks, 'a');
  const start = performance.now();
  const worker = new Worker(new URL(import.meta.url), {
    workerData: { manager: locks.number, scenario: process.argv[2] },
  });
  // Without this thread, which waits for the worker's exit.
  let ended = false;
  const exit = once(worker, 'exit').then(() => (ended = true));
  if (process.argv[2] === 'pending') {
    while (locks.query().pending.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    // Time in which the worker would end if nothing kept it alive.
    await new Promise((resolve) => setTimeout(resolve, 200));
    if (ended) console.log('ended too early');
    locks.release(held);
  }
  await exit;
  const { held: left, pending } = locks.query();
  console.log(`left: ${left.length} ${pending.length}`);
  if (performance.now() - start > 20_000) console.log('was kept alive');
} else {
  scenarios[workerData.scenario](nativeNamedEngine().open(workerData.manager));
}
