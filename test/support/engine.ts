import type { StripedLock, StripedLockOptions } from 'stripelock';

/** The engine that a contract suite tests. */
export interface EngineUnderTest {
  readonly name: 'native' | 'javascript';
  /** Every acquisition goes through the engine, none through the fast path in JavaScript. */
  readonly coreOnly: boolean;
  /** Options of Node that select the same engine and memory in programs; none if these are the default. */
  readonly nodeOptions?: readonly string[];
}

/** Makes a lock on the engine under test. */
export type MakeLock = (options?: StripedLockOptions) => StripedLock;

/** A part of the contract, to be tested on any engine. */
export type Suite = (makeLock: MakeLock, engine: EngineUnderTest) => void;
