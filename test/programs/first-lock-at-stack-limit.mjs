// Threads that make their first lock near a stack overflow, each at another depth, and then one with room on the stack.
// Prints how many failed at first, and the engines of the last locks.
import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

/** Distance from the end of the stack, in frames of this program, of about 80 bytes each. */
const DEPTHS = Array.from({ length: 64 }, (_, i) => 20 * (i + 1));
const AT_ONCE = 4;

/** Calls `then` at the given number of frames before the stack overflow. */
function nearTheEnd(frames, then) {
  let left = frames;
  const descend = () => {
    try {
      descend();
    } catch {
      // The stack overflow.
    }
    if (--left === 0) then();
  };
  descend();
}

async function inThread() {
  const { StripedLock } = await import('stripelock');
  const outcome = { failed: false, engine: undefined };
  const attempt = (make) => {
    try {
      make();
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      outcome.failed = true;
    }
  };
  // Compiling a function takes far more stack than calling it.
  const make = (options) => options && new StripedLock(options);
  attempt(make);
  let tried = false;
  nearTheEnd(workerData, () => {
    tried = true;
    attempt(() => make({}));
  });
  if (!tried) outcome.failed = true;
  const lock = new StripedLock();
  const guard = await lock.acquire('key');
  const waiting = lock.acquire('key', { timeout: 10_000 });
  guard.release();
  (await waiting).release();
  outcome.engine = lock.engine;
  parentPort.postMessage(outcome);
}

async function main() {
  const left = [...DEPTHS];
  const counts = { failed: 0, engines: {} };
  const next = async () => {
    for (let depth = left.pop(); depth !== undefined; depth = left.pop()) {
      const worker = new Worker(new URL(import.meta.url), { workerData: depth });
      const [{ failed, engine }] = await once(worker, 'message');
      if (failed) counts.failed++;
      counts.engines[engine] = (counts.engines[engine] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
  console.log(JSON.stringify(counts));
}

await (isMainThread ? main() : inThread());
