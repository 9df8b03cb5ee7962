import type { StripedLock, StripedLockOptions } from 'stripelock';

/** The engine that a test file asks for. */
export interface Engine {
  readonly name: 'native' | 'javascript';
  /** Options of Node that select the same engine and memory in programs; none if these are the default. */
  readonly nodeOptions?: readonly string[];
}

/** The engine that a contract suite tests. */
export interface EngineUnderTest extends Engine {
  /** Defines a test in which several threads use a lock, where threads can share the locks under test. Else nothing. */
  readonly acrossThreads: (title: string, test: () => Promise<void>) => void;
  /** The locks are of files: `inspect()` shows processes, and of each wait only when it began. */
  readonly isOfFile?: true;
}

/** Makes a lock on the engine under test. */
export type MakeLock = (options?: StripedLockOptions) => StripedLock;

/** A part of the contract, to be tested on any engine. */
export type Suite = (makeLock: MakeLock, engine: EngineUnderTest) => void;
