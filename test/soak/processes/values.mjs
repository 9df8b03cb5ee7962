// The values that processes change under locks: for each key a block of an ordinary file.

/** Keys that they lock. */
export const KEYS = 3;
/** The numbers of a block: whether a change is under way, the counter, the last token, and how often each thread has changed it. */
const NUMBERS = 64;
const FIRST_CELL = 8;
/** The threads that can take part. */
export const THREADS = NUMBERS - FIRST_CELL;
export const BLOCK_BYTES = NUMBERS * 8;

const DIRTY = 0;
const COUNTER = 8;
const TOKEN = 16;
const cellAt = (/** @type {number} */ thread) => (FIRST_CELL + thread) * 8;

/** @param {Buffer} block */
export function sumsOf(block) {
  let sum = 0;
  for (let thread = 0; thread < THREADS; thread++) sum += block.readDoubleLE(cellAt(thread));
  return { dirty: block.readDoubleLE(DIRTY) !== 0, counter: block.readDoubleLE(COUNTER), sum };
}

/** @param {Buffer} block */
export const tokenOf = (block) => block.readBigUInt64LE(TOKEN);

/**
 * @param {Buffer} block
 * @param {bigint} token
 */
export const setToken = (block, token) => block.writeBigUInt64LE(token, TOKEN);

/**
 * @param {Buffer} block
 * @param {boolean} dirty
 */
export const setDirty = (block, dirty) => block.writeDoubleLE(dirty ? 1 : 0, DIRTY);

/**
 * Makes the counter what the threads' own counts say.
 *
 * @param {Buffer} block
 */
export const repair = (block) => block.writeDoubleLE(sumsOf(block).sum, COUNTER);

/**
 * @param {Buffer} block
 * @param {number} thread
 */
export function countOwn(block, thread) {
  block.writeDoubleLE(block.readDoubleLE(cellAt(thread)) + 1, cellAt(thread));
}

/** @param {Buffer} block */
export const count = (block) => block.writeDoubleLE(block.readDoubleLE(COUNTER) + 1, COUNTER);
