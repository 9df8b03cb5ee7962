// Opens handles whose memory was changed, and uses the locks that can be opened: each call must return or throw. Prints
// how many were opened and refused. Arguments: engine, seed.
import { StripedLock } from 'stripelock';
import { HEADER_INTS } from '../../unbundled/engine/contract/layout.js';
import { handleOfCopy, wordsOf } from '../support/handle-memory.mjs';
import { below, randomFrom } from '../workers/random.mjs';

const engine = process.argv[2];
const random = randomFrom(Number(process.argv[3]));
const counts = { opened: 0, refused: 0, used: 0, failed: 0 };

/** Numbers that are likely to cause faults, and random others. */
function anyInteger() {
  const special = [
    0,
    1,
    -1,
    2 ** 31 - 1,
    -(2 ** 31),
    0x2000_0000,
    0x2000_0001,
    0x4000_0000,
    0x3fff_ffff,
    -2,
    77,
  ];
  return random() < 0.5 ? special[below(random, special.length)] : (random() * 2 ** 32) | 0;
}

function tamper(words, from, to, count) {
  for (let i = 0; i < count; i++) words[from + below(random, to - from)] = anyInteger();
}

function attempt(fn) {
  try {
    const result = fn();
    counts.used++;
    return result;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    counts.failed++;
  }
}

async function use(lock, words) {
  const signal = AbortSignal.timeout(20);
  const guards = [];
  const pending = [];
  for (let i = 0; i < 12; i++) {
    const keys = Array.from({ length: below(random, 4) }, () => below(random, 100));
    const options = { timeout: below(random, 2), mode: random() < 0.5 ? 'shared' : 'exclusive' };
    attempt(() => guards.push(lock.tryAcquire(keys, options)));
    attempt(() => guards.push(lock.acquireSync(keys, options)));
    attempt(() => {
      pending.push(
        lock.acquire(keys, { ...options, signal }).then(
          (guard) => attempt(() => guard.release()),
          () => counts.failed++,
        ),
      );
    });
    attempt(() => lock.stats());
    attempt(() => lock.inspect());
    attempt(() => guards.at(-1)?.token);
    if (words && random() < 0.5) tamper(words, HEADER_INTS, words.length, 3);
    if (words && random() < 0.05) tamper(words, 0, HEADER_INTS, 3);
    if (random() < 0.5) attempt(() => guards.pop()?.release());
  }
  for (const guard of guards) attempt(() => guard?.release());
  await Promise.all(pending);
}

async function openAndUse(handle) {
  let lock;
  try {
    lock = StripedLock.from(handle);
  } catch (error) {
    if (!(error instanceof Error) || !/^ERR_/.test(error.code)) throw error;
    counts.refused++;
    return;
  }
  counts.opened++;
  await use(lock);
}

for (let round = 0; round < 60; round++) {
  const stripes = 1 + below(random, 8);
  const handle = new StripedLock({ engine, stripes, timeout: 1 }).handle;

  // A copy of the memory, with some integers of the header, or of the stripes, changed.
  const forged = handleOfCopy(structuredClone(handle));
  const words = wordsOf(forged);
  if (round % 3 === 0) tamper(words, 0, HEADER_INTS, 1 + below(random, 4));
  else tamper(words, HEADER_INTS, words.length, 10);
  await openAndUse(forged);

  // Random bytes only.
  const noise = new SharedArrayBuffer(words.byteLength);
  const bytes = new Uint8Array(noise);
  for (let i = 0; i < bytes.length; i++) bytes[i] = below(random, 256);
  await openAndUse({ ...forged, buffer: noise });

  // The live memory of a lock, changed before the lock is opened again, and while it is in use.
  const live = wordsOf(handle);
  tamper(live, HEADER_INTS, live.length, 5);
  const lock = StripedLock.from(handle);
  counts.opened++;
  await use(lock, live);
}
console.log(JSON.stringify(counts));
