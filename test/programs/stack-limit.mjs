// Acquires and releases locks at every depth of recursion near a stack overflow, with and without waiters. An
// acquisition that fails there must have taken nothing, it must be possible to release a guard whose release failed,
// and whoever else waits must be served. Prints what happened. Arguments: the engine; `all`, or `uncontended` to leave
// out the scenes in which somebody waits; and to run only some, a part of their names.
import { Worker } from 'node:worker_threads';
import { KeyedLock, StripedLock } from 'stripelock';
import { makeScenes, makeThreadScenes } from './scenes/contended.mjs';
import { isOverflow, playScene, Scene } from './scenes/scene.mjs';

/**
 * Distances from the stack overflow at which to begin: a number of frames, and within a frame a number of words of 8
 * bytes.
 */
const FRAMES = 24;
const WORDS = 20;
/** Contended calls go deeper, and each takes longer: only every third frame is tried. */
const CONTENDED_FRAMES = 60;
const CONTENDED_WORDS = 10;
const STEP = 3;
/** Compiling a function takes far more stack than calling it, so each is called this often before. */
const WARM_UP = 10;

const [, , engine, part = 'all', only = ''] = process.argv;
const lock = new StripedLock({ engine, stripes: 64 });
const keys = [1, 2, 3, 4, 5, 6, 7, 8];
/** The same lock, but it has found out that pairs of keys do not come again: such pairs take a separate code path. */
const pairing = StripedLock.from(lock.handle);
const PAIRS = 3000;
for (let i = 0; i < PAIRS; i++) pairing.acquireSync([i, -i - 1]).release();
const pair = [1, 2];
/** A lock with permits, which takes a separate code path. */
const permits = new KeyedLock({ engine, capacity: 64, limit: 2 });
const ways = {
  one: () => lock.acquireSync('key'),
  several: () => lock.acquireSync(keys),
  shared: () => lock.acquireSync(keys, { mode: 'shared' }),
  try: () => lock.tryAcquire(keys),
  pair: () => pairing.acquireSync(pair),
  permit: () => permits.acquireSync('key'),
  permits: () => permits.acquireSync(keys),
  async: () => lock.acquire(keys),
};
/** The keys for functions that do not take `keys` of `lock`. */
const subjects = {
  one: [lock, 'key'],
  pair: [pairing, pair],
  permit: [permits, 'key'],
  permits: [permits, keys],
};
/** How often calls returned, and how often they overflowed, in total and for each of the `scenes`. */
const counts = { done: 0, failed: 0, lost: [], scenes: {} };
/** A guard that could not be released where it was acquired. */
let unreleased;

function attempt(way) {
  try {
    unreleased = way();
    if (unreleased instanceof Promise) return;
    unreleased?.release();
    unreleased = undefined;
    counts.done++;
  } catch (error) {
    tookNothing(error);
  }
}

/** The padding adds unused arguments, so that the end of the stack moves by 8 bytes at a time. */
function descend(frames, last, way, padding) {
  if (frames === 0) last(way, ...padding);
  else descend(frames - 1, last, way, padding);
}

function tookNothing(error) {
  if (!(error instanceof RangeError)) throw error;
  counts.failed++;
}

function reaches(frames, last, padding) {
  try {
    descend(frames, last, () => undefined, padding);
    return true;
  } catch {
    return false;
  }
}

/** At how many frames `last` and a call that does nothing still fit. */
function deepest(last, padding) {
  let [reached, tooDeep] = [1, 1_000_000];
  while (reached < tooDeep - 1) {
    const middle = (reached + tooDeep) >> 1;
    if (reaches(middle, last, padding)) reached = middle;
    else tooDeep = middle;
  }
  return reached;
}

/** Calls what `prepare` returns at many distances from the end of the stack. */
async function toTheEnd(name, prepare) {
  for (let words = 0; words < WORDS; words++) {
    const padding = new Array(words).fill(0);
    const end = deepest(attempt, padding);
    for (let frames = end - FRAMES; frames <= end; frames++) {
      const way = prepare();
      try {
        descend(frames, attempt, way, padding);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
      if (unreleased instanceof Promise) unreleased = await unreleased.catch(tookNothing);
      unreleased?.release();
      unreleased = undefined;
      // Guards that could not be released there are released from the microtask queue.
      await undefined;
      const held = lock.stats().held + permits.stats().held;
      if (held > 0) counts.lost.push(`${name}: ${held}`);
    }
  }
}

async function uncontended() {
  for (const [name, way] of Object.entries(ways)) {
    if (!name.includes(only)) continue;
    for (let i = 0; i < WARM_UP; i++) (await way())?.release();
    await toTheEnd(name, () => way);
    await toTheEnd(`release of ${name}`, () => {
      const [of, what] = subjects[name] ?? [lock, keys];
      const guard = of.tryAcquire(what, { mode: name === 'shared' ? name : 'exclusive' });
      unreleased = guard;
      return () => guard;
    });
  }
}

/** The result of the last call. */
let result;

function makeCall(call) {
  result = call();
}

function callBelow(frames, padding, call) {
  result = undefined;
  try {
    descend(frames, makeCall, call, padding);
    return { result };
  } catch (error) {
    return { error, result };
  }
}

/**
 * Plays a scene near the end of the stack, again and again. False: something was lost, and later scenes prove nothing.
 */
async function contended(name, setUp, sceneLock) {
  const problems = [];
  const tally = (counts.scenes[name] = { done: 0, failed: 0 });
  const play = (frames, padding) =>
    playScene(new Scene(sceneLock, problems), setUp, (call) => {
      const outcome = callBelow(frames, padding, call);
      tally[isOverflow(outcome.error) ? 'failed' : 'done']++;
      // A promise of an async function is rejected instead.
      if (outcome.result instanceof Promise)
        outcome.result.catch((error) => (tally.failed += isOverflow(error)));
      return outcome;
    });
  for (let i = 0; i < WARM_UP; i++) await play(1, []);
  for (let words = 0; words < CONTENDED_WORDS && problems.length === 0; words++) {
    const padding = new Array(words).fill(0);
    const end = deepest(makeCall, padding);
    // Beyond the end, too: a compiled call may need no more stack than one that does nothing.
    for (let frames = end - CONTENDED_FRAMES + (words % STEP); frames < end + STEP; frames += STEP) {
      await play(frames, padding);
      if (problems.length > 0) break;
    }
  }
  for (const problem of problems) counts.lost.push(`${name}: ${problem}`);
  return problems.length === 0;
}

/** Keys on different stripes, in the order of these. */
function keysApart(count) {
  const byStripe = new Map();
  for (let i = 0; byStripe.size < count; i++) byStripe.set(lock.stripeOf(`key-${i}`), `key-${i}`);
  return [...byStripe].sort(([one], [other]) => one - other).map(([, key]) => key);
}

/** An event target reports what its listeners throw in this way. */
process.on('uncaughtException', (error) => {
  if (!isOverflow(error)) throw error;
});

async function allContended() {
  const apart = keysApart(4);
  const newLock = () => new StripedLock({ engine, stripes: 64 });
  for (const [name, setUp] of Object.entries(makeScenes(apart))) {
    if (name.includes(only) && !(await contended(name, setUp, newLock()))) return;
  }
  const cells = new Int32Array(new SharedArrayBuffer(8));
  for (const [name, setUp] of Object.entries(makeThreadScenes(apart, cells))) {
    if (!name.includes(only)) continue;
    const shared = newLock();
    cells.fill(0);
    const url = new URL('../workers/hand-over.mjs', import.meta.url);
    const worker = new Worker(url, { workerData: { handle: shared.handle, key: apart[1], cells } });
    const good = await contended(name, setUp, shared);
    await worker.terminate();
    if (!good) return;
  }
}

await uncontended();
if (part === 'all') await allContended();
console.log(JSON.stringify(counts));
// A lost waiter may wait for ever.
process.exit();
