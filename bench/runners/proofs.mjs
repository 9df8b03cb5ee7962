// Checks that a subject locks what it says it locks. The counters of a single thread are right without any lock, so
// each uncontended workload also requests a held key.
//
// It does so after the measurement: before, it would show the optimizer paths that a free lock never takes.

/**
 * A lock whose methods are called by name. The names are built from the operation's name.
 *
 * @typedef {Record<string, (...request: any[]) => any>} Methods
 */

/**
 * For each form of a workload's operation, the keys to be found taken while its first are held; none for new strings, whose
 * loop makes its keys itself.
 */
/** @type {Record<string, (keys: readonly any[]) => readonly any[]>} */
const heldKeys = {
  '': ([key]) => [key],
  Shared: ([key]) => [key],
  Many: ([list]) => list,
};

/** How many keys a loop draws at a time; they are proved like a list of as many. */
/** @type {Record<string, number>} */
const DRAWN = { Pairs: 2, Eights: 8 };

/**
 * @param {Methods} lock
 * @param {import('../subjects/index.mjs').Subject} subject
 * @param {string} operation
 * @param {readonly unknown[]} keys What the workload's loop was given.
 * @throws {Error} If a second exclusive acquisition succeeds during the first, or none succeeds after it.
 */
export async function prove(lock, subject, operation, keys) {
  const [, how, form] = /^(sync|try|async|run)(.*)$/.exec(operation) ?? [];
  if (form in DRAWN) return prove(lock, subject, `${how}Many`, [keys.slice(0, DRAWN[form])]);
  if (form === 'Singles') return prove(lock, subject, how, keys);
  if (heldKeys[form] === undefined) return;
  if (how === 'async' || how === 'run') await proveByQueueing(lock, form, keys);
  else if (subject.can.includes('try')) proveByTrying(lock, methodOf[how](form), form, keys);
}

/** @type {Record<string, (form: string) => string>} */
const methodOf = {
  sync: (form) => `acquire${form}Sync`,
  try: (form) => `tryAcquire${form}`,
};

/**
 * @param {Methods} lock
 * @param {string} method
 * @param {string} form
 * @param {readonly any[]} keys
 */
function proveByTrying(lock, method, form, keys) {
  const held = lock[method](keys[0]);
  for (const key of heldKeys[form](keys)) {
    if (lock.tryAcquire(key) !== undefined) throw new Error('let a second one in');
  }
  if (form === 'Shared') lock.release(requireHeld(lock.tryAcquireShared(keys[0])));
  lock.release(held);
  for (const key of heldKeys[form](keys)) lock.release(requireHeld(lock.tryAcquire(key)));
}

/**
 * @template T
 * @param {T | undefined} held
 */
function requireHeld(held) {
  if (held === undefined) throw new Error('is still held after it was given back');
  return held;
}

const turn = () => new Promise((resolve) => setImmediate(resolve));
/** Turns of the event loop after which every task that may enter has entered. */
const TURNS = 5;

/**
 * @param {Methods} lock
 * @param {string} form
 * @param {readonly any[]} keys
 */
async function proveByQueueing(lock, form, keys) {
  for (const key of heldKeys[form](keys)) {
    const holders = [await enter(lock, form, keys[0])];
    if (form === 'Shared') holders.push(await enter(lock, form, keys[0]));
    let entered = 0;
    const next = lock.run(key, async () => void entered++);
    for (let i = 0; i < TURNS; i++) await turn();
    if (entered !== 0) throw new Error('let a second one in');
    for (const { letGo } of holders) letGo();
    await Promise.all([...holders.map(({ done }) => done), next]);
  }
}

/**
 * Resolves when the keys are held. Acquires them in the same way as the loop.
 *
 * @param {Methods} lock
 * @param {string} form
 * @param {any} key
 */
async function enter(lock, form, key) {
  /** @type {Promise<unknown> | undefined} */
  let done;
  const letGo = await new Promise((resolve, reject) => {
    const section = () => new Promise((letGo) => resolve(letGo));
    const acquire = `acquire${form}`;
    done =
      lock[acquire] === undefined
        ? lock[`run${form}`](key, section)
        : lock[acquire](key).then((/** @type {unknown} */ held) => section().then(() => lock.release(held)));
    done?.catch(reject);
  });
  return { letGo, done };
}
