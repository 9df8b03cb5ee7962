import { describe } from 'vitest';
import { StripedLock } from 'stripelock';
import type { EngineUnderTest, MakeLock, Suite } from '../support/engine.js';
import { badInputSuite } from './bad-input.js';
import { cancellationSuite } from './cancellation.js';
import { deadlinesSuite } from './deadlines.js';
import { exclusiveSuite } from './exclusive.js';
import { failuresSuite } from './failures.js';
import { guardsSuite } from './guards.js';
import { handlesSuite } from './handles.js';
import { idleGrantsSuite } from './idle-grants.js';
import { keepAliveSuite } from './keep-alive.js';
import { keysSuite } from './keys.js';
import { modelSuite } from './model.js';
import { multiKeySuite } from './multi-key.js';
import { mutualExclusionSuite } from './mutual-exclusion.js';
import { oddInputSuite } from './odd-input.js';
import { racesSuite } from './races.js';
import { responsivenessSuite } from './responsiveness.js';
import { selfWaitSuite } from './self-wait.js';
import { sharedSuite } from './shared.js';
import { statsInspectSuite } from './stats-inspect.js';
import { withLockSuite } from './with-lock.js';
import { workerThreadsSuite } from './worker-threads.js';

const SUITES: readonly Suite[] = [
  exclusiveSuite,
  sharedSuite,
  multiKeySuite,
  mutualExclusionSuite,
  deadlinesSuite,
  cancellationSuite,
  racesSuite,
  selfWaitSuite,
  keysSuite,
  badInputSuite,
  oddInputSuite,
  handlesSuite,
  guardsSuite,
  failuresSuite,
  withLockSuite,
  workerThreadsSuite,
  keepAliveSuite,
  responsivenessSuite,
  idleGrantsSuite,
  statsInspectSuite,
  modelSuite,
];

/** Tells all of the contract of one engine. */
export function lockContract(engine: EngineUnderTest): void {
  const makeLock: MakeLock = (options) => new StripedLock({ engine: engine.name, ...options });
  describe(`${engine.name} engine${engine.coreOnly ? ', core only' : ''}`, () => {
    for (const suite of SUITES) suite(makeLock, engine);
  });
}
