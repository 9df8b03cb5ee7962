import assert from 'node:assert/strict';
import { checkNames, type Names } from '../common/checks.js';
import type { LeaseStore } from '../lease/contract/lease-store.js';

/** The part of `expect` that the suite uses, which vitest and jest both offer. */
export type Expect = (actual: unknown) => {
  /** Fails unless `actual` and `expected` are the same value, as `Object.is` compares them. */
  toBe(expected: unknown): void;
  /** Fails unless `actual` and `expected` are deeply equal. */
  toEqual(expected: unknown): void;
};

/** The functions of a test runner: vitest, jest, or node:test, which has no `expect`. */
export interface ContractFramework {
  /** Groups tests. */
  describe: (name: string, define: () => void) => unknown;
  /** Defines a test. */
  it: (name: string, test: () => Promise<void>) => unknown;
  /** Default: assertions of node:assert. */
  expect?: Expect;
}

/** A store, and the ways in which the suite may use it. */
export interface StoreUnderTest {
  /** A new store in which no key is held. */
  store: LeaseStore;
  /**
   * Further clients of the same store: other connections, threads or processes. The suite sends its
   * operations through all clients in turn, so that it checks its rules across them.
   */
  peers?: readonly LeaseStore[];
  /** Lets this many milliseconds pass for the store. Default: waits slightly longer than that. */
  advance?(milliseconds: number): void | Promise<void>;
  /** Called after each test. Default: calls `close` of each store that has one. */
  dispose?(): void | Promise<void>;
  /**
   * The TTL that tests wait for, in whole milliseconds. Default 400, or 10_000 with `advance`. Several
   * operations must fit into this time, so use a longer TTL for a slow store. If a machine is too slow for
   * the TTL, the test restarts with a longer TTL.
   */
  ttl?: number;
  /**
   * The maximum number of milliseconds by which the store may end a lease late, if its clock is coarse.
   * Default 0. A lease must never end early.
   */
  late?: number;
  /** Whether the store keeps `info` texts, by the rules of `InfoLeaseStore`. Default false. */
  keepsInfo?: boolean;
  /**
   * Whether the store reports that a holder left its key without a release. It must then follow the rules of
   * `AbandonmentLeaseStore`. Default false.
   */
  reportsAbandonment?: boolean;
}

/** Creates an empty store: the store itself, or the store with options of the suite. */
export type MakeStore = () => LeaseStore | StoreUnderTest | Promise<LeaseStore | StoreUnderTest>;

export const assertions: Expect = (actual) => ({
  toBe(expected) {
    assert.ok(Object.is(actual, expected), `expected ${String(expected)}, received ${String(actual)}`);
  },
  toEqual(expected) {
    assert.deepEqual(actual, expected);
  },
});

/** The context of one test. */
export interface Scene {
  /** A client of the store. Each access returns another client, so that operations use different clients. */
  readonly store: LeaseStore;
  readonly ttl: number;
  /** The number of milliseconds by which the store may end a lease late. */
  readonly late: number;
  /** Lets time pass. */
  pass(milliseconds: number): Promise<void>;
  /** Lets a lease that was just granted or renewed for `ttl` milliseconds expire. */
  expire(): Promise<void>;
  /** The time for {@link requireWithin}. */
  now(): number;
  readonly keepsInfo: boolean;
  readonly reportsAbandonment: boolean;
  /**
   * Declares that the following checks are valid only if fewer than `milliseconds` have passed since `since`.
   * If more time has passed, the test restarts with a longer TTL.
   */
  requireWithin(milliseconds: number, since: number): void;
  expect: Expect;
}

export type Sentence = readonly [name: string, test: (scene: Scene) => Promise<void>];

/** Milliseconds by which a real clock and the store's clock may disagree. */
const MARGIN = 30;
/**
 * The maximum number of attempts to run a test. Each restart makes the TTL longer, by half of the first TTL.
 */
const STARTS = 10;

const NAMES: Names<StoreUnderTest> = {
  store: true,
  peers: true,
  advance: true,
  dispose: true,
  ttl: true,
  late: true,
  keepsInfo: true,
  reportsAbandonment: true,
};

class TooSlow extends Error {
  constructor(ttl: number) {
    super(`the machine, or the store, is too slow for a ttl of ${ttl} ms: pass a longer one`);
  }
}

export async function runSentence(
  test: (scene: Scene) => Promise<void>,
  makeStore: MakeStore,
  expect: Expect,
): Promise<void> {
  for (let start = 1; ; start++) {
    try {
      await runOnce(test, makeStore, expect, (start + 1) / 2);
      return;
    } catch (error) {
      if (!(error instanceof TooSlow) || start === STARTS) throw error;
    }
  }
}

async function runOnce(
  test: (scene: Scene) => Promise<void>,
  makeStore: MakeStore,
  expect: Expect,
  longer: number,
): Promise<void> {
  const made = await makeStore();
  if ('store' in made) checkNames(made, NAMES, 'the store under test');
  const subject: StoreUnderTest = 'store' in made ? made : { store: made };
  const clients = [subject.store, ...(subject.peers ?? [])];
  const ttl = Math.ceil(longer * (subject.ttl ?? (subject.advance ? 10_000 : 400)));
  const late = subject.late ?? 0;
  let next = 0;
  let asked = 0;
  const scene: Scene = {
    keepsInfo: subject.keepsInfo === true,
    reportsAbandonment: subject.reportsAbandonment === true,
    get store() {
      asked = scene.now();
      return clients[next++ % clients.length]!;
    },
    ttl,
    late,
    expire: () => scene.pass(ttl + late),
    async pass(milliseconds) {
      if (subject.advance) await subject.advance(milliseconds);
      else await new Promise((resolve) => setTimeout(resolve, milliseconds + MARGIN));
    },
    now: () => (subject.advance ? 0 : performance.now()),
    requireWithin(milliseconds, since) {
      if (scene.now() - since >= milliseconds) throw new TooSlow(ttl);
    },
    expect,
  };
  try {
    await test(scene);
  } catch (error) {
    // If a grant arrives after its TTL, because the machine is too slow, the
    // acquisition fails with this code.
    if ((error as { code?: unknown }).code === 'ERR_LEASE_STORE') scene.requireWithin(ttl, asked);
    throw error;
  } finally {
    if (subject.dispose) await subject.dispose();
    else for (const client of clients) await client.close?.();
  }
}

/** The code of the error with which an operation rejects. */
export async function codeOf(operation: () => Promise<unknown>): Promise<unknown> {
  try {
    await operation();
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
  return 'nothing was thrown';
}
