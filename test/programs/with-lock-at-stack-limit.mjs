// Calls `withLock` near a stack overflow, with more room each time. It is compiled, and so is `acquire`, but what it calls then
// is not: compiling that takes far more stack than calling it. So some calls overflow once they have acquired. Prints how
// many have acquired, how many of these ran their function or overflowed, and whether the key is free at the end.
// Argument: the engine.
import { StripedLock } from 'stripelock';

/** Frames of this program, of about 80 bytes each, by which the last attempt is away from the stack overflow. */
const FRAMES = 6000;

const lock = new StripedLock({ engine: process.argv[2], timeout: Infinity });
const { acquire } = lock;
const pending = [];
lock.acquire = (keys, options) => {
  const promise = acquire.call(lock, keys, options);
  pending.push(promise);
  return promise;
};
(await lock.acquire('key')).release();
const refused = await lock.withLock('key').catch(({ code }) => code);
pending.length = 0;

/** What the calls that have acquired returned. */
const calls = [];
let ran = 0;
let left = FRAMES;
const attempt = () => {
  const before = pending.length;
  const call = lock.withLock('key', () => ran++);
  if (pending.length > before) calls.push(call);
  else call.catch(() => undefined);
};
const descend = () => {
  try {
    descend();
  } catch {
    // The stack overflow.
  }
  if (left-- <= 0) return;
  try {
    attempt();
  } catch {
    // It was too near to call anything.
  }
};
descend();

const results = await Promise.allSettled(calls);
const overflows = results.filter(({ reason }) => reason instanceof RangeError);
// What is left to release is released from the microtask queue.
await new Promise(setImmediate);
const free = lock.tryAcquire('key') !== undefined;
console.log(JSON.stringify({ refused, acquired: calls.length, ran, overflows: overflows.length, free }));
