import { describe, it } from 'vitest';
import { StripedLock } from 'stripelock';
import { makeKeyedLocks } from '../support/keyed.js';
import type { Engine, EngineUnderTest, MakeLock, Suite } from '../support/engine.js';
import { badInputSuite } from './bad-input.js';
import { blockWhilePendingSuite } from './block-while-pending.js';
import { cancellationSuite } from './cancellation.js';
import { capacitySuite } from './capacity.js';
import { exactKeysSuite } from './exact-keys.js';
import { crowdsSuite } from './crowds.js';
import { deadlinesSuite, oneAttemptSuite } from './deadlines.js';
import { exclusiveSuite } from './exclusive.js';
import { failuresSuite } from './failures.js';
import { guardsSuite } from './guards.js';
import { handlesSuite } from './handles.js';
import { idleGrantsSuite } from './idle-grants.js';
import { idleLoopSuite, keepAliveSuite } from './keep-alive.js';
import { keysSuite } from './keys.js';
import { modelSuite } from './model.js';
import { multiKeySuite } from './multi-key.js';
import { mutualExclusionSuite } from './mutual-exclusion.js';
import { newPairsSuite } from './new-pairs.js';
import { oddBytesSuite } from './odd-bytes.js';
import { oddListsSuite } from './odd-lists.js';
import { oddValuesSuite } from './odd-values.js';
import { otherRealmsSuite } from './other-realms.js';
import { permitsSuite } from './permits.js';
import { racesSuite } from './races.js';
import { recyclingSuite } from './recycling.js';
import { responsivenessSuite } from './responsiveness.js';
import { selfWaitSuite } from './self-wait.js';
import { sharedSuite } from './shared.js';
import { stackOverflowSuite, uncontendedOverflowSuite } from './stack-overflow.js';
import { stateOfKeySuite } from './state-of-key.js';
import { inspectSuite, statsSuite } from './stats-inspect.js';
import { withLockSuite } from './with-lock.js';
import { workerThreadsSuite } from './worker-threads.js';

/** Effects on the words and counters of a lock. */
const WORDS: readonly Suite[] = [
  exclusiveSuite,
  sharedSuite,
  multiKeySuite,
  newPairsSuite,
  mutualExclusionSuite,
  guardsSuite,
  statsSuite,
  inspectSuite,
  stateOfKeySuite,
  crowdsSuite,
  modelSuite,
];

/** How other threads get and open a lock's memory. */
const MEMORY: readonly Suite[] = [handlesSuite, workerThreadsSuite];

/** The outcome of an acquisition of free keys. */
const UNCONTENDED: readonly Suite[] = [
  oneAttemptSuite,
  cancellationSuite,
  selfWaitSuite,
  failuresSuite,
  withLockSuite,
  idleLoopSuite,
];

/** Behaviour that depends neither on the place of the words nor on the code that takes a free stripe. */
const THE_REST: readonly Suite[] = [
  blockWhilePendingSuite,
  deadlinesSuite,
  racesSuite,
  keysSuite,
  badInputSuite,
  oddValuesSuite,
  oddListsSuite,
  otherRealmsSuite,
  oddBytesSuite,
  stackOverflowSuite,
  keepAliveSuite,
  responsivenessSuite,
  idleGrantsSuite,
];

/** Behaviour of locks on exact keys, too. */
const EXACT_TOO: readonly Suite[] = [
  sharedSuite,
  oneAttemptSuite,
  cancellationSuite,
  idleLoopSuite,
  oddListsSuite,
  responsivenessSuite,
  stateOfKeySuite,
  crowdsSuite,
];

/** The same between threads. */
const EXACT_ACROSS_THREADS: readonly Suite[] = [blockWhilePendingSuite, racesSuite, idleGrantsSuite];

function run(title: string, suites: readonly Suite[], of: Engine): void {
  const engine = { ...of, acrossThreads: it };
  const makeLock: MakeLock = (options) => new StripedLock({ engine: engine.name, ...options });
  describe(title, () => {
    for (const suite of suites) suite(makeLock, engine);
  });
}

/**
 * Runs what does not depend on which keys share a stripe, with locks on exact keys, and what only these promise. On the
 * JavaScript engine these are for one thread.
 */
export function keyedContract(of: Engine): void {
  const acrossThreads = of.name === 'native' ? it : () => undefined;
  const engine: EngineUnderTest = { ...of, acrossThreads };
  const suites = of.name === 'native' ? [...EXACT_TOO, ...EXACT_ACROSS_THREADS] : EXACT_TOO;
  describe(`${of.name} engine, exact keys`, () => {
    for (const suite of suites) suite(makeKeyedLocks(engine), engine);
    exactKeysSuite(engine);
    recyclingSuite(engine);
    capacitySuite(engine);
    permitsSuite(engine);
  });
}

/** Behaviour of locks between processes, too. */
const PROCESSES_TOO: readonly Suite[] = [
  sharedSuite,
  idleLoopSuite,
  blockWhilePendingSuite,
  idleGrantsSuite,
  oneAttemptSuite,
  cancellationSuite,
  withLockSuite,
  statsSuite,
  stateOfKeySuite,
  crowdsSuite,
];

/** Runs the parts that do not depend on stripes and words, with each lock on a separate file. */
export function processContract(makeLock: MakeLock): void {
  const engine: EngineUnderTest = { name: 'native', acrossThreads: it, isOfFile: true };
  describe('locks between processes', () => {
    for (const suite of PROCESSES_TOO) suite(makeLock, engine);
  });
}

/** Runs the whole contract on one engine. */
export function lockContract(engine: Engine): void {
  run(`${engine.name} engine`, [...WORDS, ...MEMORY, ...UNCONTENDED, ...THE_REST], engine);
}

/** Runs the parts that can depend on where the native engine keeps the words of a lock. */
export function memoryContract(engine: Engine): void {
  run(`${engine.name} engine, own memory`, [...WORDS, ...MEMORY, uncontendedOverflowSuite], engine);
}

/** Runs the parts that can depend on whether the fast path or the core takes and frees a free stripe. */
export function coreOnlyContract(engine: Engine): void {
  run(`${engine.name} engine, core only`, [...WORDS, ...UNCONTENDED, uncontendedOverflowSuite], engine);
}
