// Takes and gives back locks at every depth of recursion near that at which the stack ends. An acquisition that fails
// there must have taken nothing, and a guard whose release fails must still be one that can be released. Prints what
// happened. Argument: the engine.
import { StripedLock } from 'stripelock';

/** Places to begin at, from the last one up: that many frames, and within a frame, words of 8 bytes. */
const FRAMES = 24;
const WORDS = 20;

const lock = new StripedLock({ engine: process.argv[2], stripes: 64 });
const keys = [1, 2, 3, 4, 5, 6, 7, 8];
const ways = {
  one: () => lock.acquireSync('key'),
  several: () => lock.acquireSync(keys),
  shared: () => lock.acquireSync(keys, { mode: 'shared' }),
  try: () => lock.tryAcquire(keys),
  async: () => lock.acquire(keys),
  withLock: () => lock.withLockSync(keys, () => undefined),
};
const counts = { done: 0, failed: 0, lost: [] };
/** What could not be released where it was had. */
let unreleased;

function attempt(way) {
  try {
    unreleased = way();
    if (unreleased instanceof Promise) return;
    unreleased?.release();
    unreleased = undefined;
    counts.done++;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    counts.failed++;
  }
}

/** With so many arguments that nobody asks for, so that the end is met at one place after the other: 8 bytes apart. */
function descend(frames, way, padding) {
  if (frames === 0) attempt(way, ...padding);
  else descend(frames - 1, way, padding);
}

function tookNothing(error) {
  if (!(error instanceof RangeError)) throw error;
  counts.failed++;
}

function reaches(frames, padding) {
  try {
    descend(frames, () => undefined, padding);
    return true;
  } catch {
    return false;
  }
}

function deepest(padding) {
  let [reached, tooDeep] = [1, 1_000_000];
  while (reached < tooDeep - 1) {
    const middle = (reached + tooDeep) >> 1;
    if (reaches(middle, padding)) reached = middle;
    else tooDeep = middle;
  }
  return reached;
}

/** What `prepare` returns is called at many distances from the end of the stack. */
async function toTheEnd(name, prepare) {
  for (let words = 0; words < WORDS; words++) {
    const padding = new Array(words).fill(0);
    const end = deepest(padding);
    for (let frames = end - FRAMES; frames <= end; frames++) {
      const way = prepare();
      try {
        descend(frames, way, padding);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
      }
      if (unreleased instanceof Promise) unreleased = await unreleased.catch(tookNothing);
      unreleased?.release();
      unreleased = undefined;
      // What could not be given back there is given back from the microtask queue.
      await undefined;
      const { held } = lock.stats();
      if (held > 0) counts.lost.push(`${name}: ${held}`);
    }
  }
}

for (const [name, way] of Object.entries(ways)) {
  // To compile a function takes far more of the stack than to call it.
  for (let i = 0; i < 10; i++) (await way())?.release();
  await toTheEnd(name, () => way);
  if (name === 'withLock') continue;
  await toTheEnd(`release of ${name}`, () => {
    const guard = lock.tryAcquire(name === 'one' ? 'key' : keys, {
      mode: name === 'shared' ? name : 'exclusive',
    });
    unreleased = guard;
    return () => guard;
  });
}
console.log(JSON.stringify(counts));
