import type { StripedLock, StripedLockOptions } from 'stripelock';

/** What the contract suites run on. */
export interface EngineUnderTest {
  readonly name: 'native' | 'javascript';
  /** Every acquisition goes through the engine, none through the fast path in JavaScript. */
  readonly coreOnly: boolean;
}

/** A new lock on the engine under test. */
export type MakeLock = (options?: StripedLockOptions) => StripedLock;

/** Some sentences of the contract, to be told of any engine. */
export type Suite = (makeLock: MakeLock, engine: EngineUnderTest) => void;
