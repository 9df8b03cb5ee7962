// Acquires near a stack overflow, and then with a timeout, on the JavaScript engine. Prints how many timeouts have passed.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { KeyedLock, StripedLock } from 'stripelock';

/** Frames of a small function: from no room on the stack to enough for each call. */
const FRAMES = 1500;
/** Milliseconds. Far more than a timeout takes on a busy machine. */
const PATIENCE = 20_000;

/** Calls `last` at each of the last frames before the stack overflows. */
function descend(last) {
  let room;
  try {
    room = descend(last) + 1;
  } catch {
    room = 0;
  }
  if (room < FRAMES) {
    try {
      last();
    } catch {
      // The overflow.
    }
  }
  return room;
}

/** The same, with each frame so many words further down the stack. */
function descendFrom(words, last) {
  descend.apply(undefined, [last, ...Array(words).fill(0)]);
}

// An overflow can hit Node itself while it notes that a rejection is handled.
process.on('unhandledRejection', () => undefined);

const Lock = process.argv[2] === 'KeyedLock' ? KeyedLock : StripedLock;
const kept = [];
let passed = 0;
for (let words = 0; words < 120; words++) {
  const lock = new Lock({ engine: 'javascript' });
  kept.push(lock, lock.acquireSync('key'));
  const timeout = 10 + words;
  descendFrom(words % 60, () => void lock.acquire('key', { timeout }).catch(() => undefined));
  let code;
  lock.acquire('key', { timeout }).catch((error) => (code = error.code));
  // Without a separate timer, which could set right what is wrong with others.
  for (const end = performance.now() + PATIENCE; code === undefined && performance.now() < end;)
    await nextTurn();
  if (code !== 'ERR_LOCK_TIMEOUT') break;
  passed++;
}
console.log(passed);
process.exit();
