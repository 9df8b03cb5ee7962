import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import {
  LeaseManager,
  type AcquireLeaseOptions,
  type InfoLeaseState,
  type InfoLeaseStore,
  type Lease,
  type LeaseStore,
  type WarningLeaseManagerOptions,
} from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { keptOwner } from '../../unbundled/lease/contract/lease-store.js';
import { rejectionOf, turns, until, watch } from '../support/waiting.js';

/** The keys to acquire. The kinds overlap: slot 1 of "a" is the key "a#slot1" of the store. */
const KINDS = [
  { kind: 'one key', keys: 'a', limit: 1 },
  { kind: 'several keys', keys: ['a', 'a#slot1', 'b'], limit: 1 },
  { kind: 'all permits', keys: 'a', limit: 2 },
] as const;
type Kind = (typeof KINDS)[number];

/** Milliseconds: a lease on an injected clock, and one in real time, which outlasts any test. */
const SHORT = { ttl: 300, every: 100, minHold: 2000 };
const LONG = { ttl: 60_000, every: 20, minHold: 700 };
const MAX_HOLD = 3_600_000;
/** More than one TTL on an injected clock; as many as a real one has time for. */
const RENEWALS = { injected: 4, real: 2 };
const MOST = { timeout: 50_000 };

const RENEWALS_BY = [
  { how: 'this thread', renew: (every: number) => ({ every }), isBackground: false },
  {
    how: 'the background',
    renew: (every: number) => ({ every, background: true }),
    isBackground: true,
  },
  { how: 'hand', renew: () => false, isBackground: false },
] as const;
type Renewing = (typeof RENEWALS_BY)[number];

/** One store for one test. */
export interface Scene {
  /** The same store again, as another client. It ends with the test. */
  readonly open: () => InfoLeaseStore | Promise<InfoLeaseStore>;
  /** Injected into the store. Undefined if the store reads a real clock. */
  readonly clock: FixedClock | undefined;
  /** Whether the store keeps a released key for a waiter, for some time on its clock. Then that clock must not stand still. */
  readonly keepsForWaiters?: boolean;
}

/**
 * Starts a store in which nothing is held. `isBackground`: another thread renews leases in it, so its clock cannot be
 * injected.
 */
export type StartScene = (isBackground: boolean) => Scene | Promise<Scene>;

/**
 * The store behind a slow network. `travel` lets time pass while a renewal is sent, and again while its answer is on its way. A
 * deadline that counts from the answer is then later than the store's.
 */
export function slow<T extends LeaseStore>(store: T, travel: () => unknown): T {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name !== 'renew' && name !== 'renewAll') return value.bind(target) as unknown;
      return async (...of: unknown[]): Promise<unknown> => {
        await travel();
        const answer: unknown = await Reflect.apply(value, target, of);
        await travel();
        return answer;
      };
    },
  });
}

/** Milliseconds pass on the way of a request, or of its answer, in real time. */
export const delayed = (): Promise<void> => delay(10);

/** The keys of the store that a lease has. */
function namesOf(lease: Lease): readonly string[] {
  return lease.slot === 0 ? lease.keys : [`${lease.key}#slot${lease.slot}`];
}

/** The leases of a test, of all managers: one holder for each key of the store at any time, and rising tokens. */
class Holders {
  readonly #holders = new Map<string, Lease>();
  readonly #tokens = new Map<string, bigint>();

  enter(lease: Lease): void {
    const tokens = [...lease.tokens.values()];
    namesOf(lease).forEach((name, i) => {
      // A lease that its waiter did not renew by hand may have expired.
      expect(this.#holders.get(name)?.held ?? false, `two hold ${name}`).toBe(false);
      expect(tokens[i]).toBeGreaterThan(this.#tokens.get(name) ?? -1n);
      this.#holders.set(name, lease);
      this.#tokens.set(name, tokens[i]!);
    });
  }

  leave(lease: Lease): void {
    for (const name of namesOf(lease)) {
      if (this.#holders.get(name) === lease) this.#holders.delete(name);
    }
  }
}

/** One row of the table: a holder, and those that wait for it. */
class Row {
  readonly #scene: Scene;
  readonly #renewing: Renewing;
  /** Milliseconds by which the store's answer to `inspect` may be below the remaining time. */
  readonly #rounding: number;
  readonly #times: typeof SHORT;
  readonly #holders = new Holders();
  readonly #waiting: Promise<void>[] = [];
  #store!: InfoLeaseStore;
  manager!: LeaseManager;
  leases: readonly Lease[] = [];
  /** When the holder asked, on the store's clock. */
  #since = 0;

  constructor(scene: Scene, renewing: Renewing, rounding: number) {
    this.#scene = scene;
    this.#renewing = renewing;
    this.#rounding = scene.clock === undefined ? rounding : 0;
    this.#times = scene.clock === undefined ? LONG : SHORT;
  }

  /** The holder, and waiters of each kind in its manager and in two others. */
  async begin(kind: Kind, hasMinHold: boolean): Promise<void> {
    const { open } = this.#scene;
    this.#store = await open();
    const { minHold } = this.#times;
    this.manager = this.#managerOn(this.#store, hasMinHold ? { minHold } : {});
    this.#since = this.#now();
    const count = kind.limit;
    this.leases = await Promise.all(
      Array.from({ length: count }, () => this.manager.acquire(kind.keys, { limit: kind.limit, ...MOST })),
    );
    for (const lease of this.leases) this.#holders.enter(lease);
    await this.#compareDeadlines();
    for (const store of [await open(), await open()]) this.#wait(this.#managerOn(store, {}));
  }

  /** Waiters of each kind. */
  #wait(manager: LeaseManager): void {
    for (const { keys, limit } of KINDS) {
      const served = async (): Promise<void> => {
        const lease = await manager.acquire(keys, { limit, minHold: 0, ...MOST });
        this.#holders.enter(lease);
        await this.#compareDeadline(lease);
        await turns(2);
        this.#holders.leave(lease);
        await lease.release();
      };
      const waiting = served();
      waiting.catch(() => undefined);
      this.#waiting.push(waiting);
    }
  }

  waitInSameManager(): void {
    this.#wait(this.manager);
  }

  /** Lets the leases be renewed, and compares their deadlines with the store's. */
  async renewed(): Promise<void> {
    const times = this.#scene.clock === undefined ? RENEWALS.real : RENEWALS.injected;
    for (let i = 0; i < times; i++) {
      const before = this.leases.map(({ expiresAt }) => expiresAt);
      this.#scene.clock?.advance(this.#times.every);
      if (this.#renewing.how === 'hand') {
        const results = await Promise.all(this.leases.map((lease) => lease.renew()));
        expect(results.every(Boolean)).toBe(true);
      }
      await until(
        () => this.leases.every(({ expiresAt }, j) => expiresAt > before[j]!),
        'all leases are renewed',
      );
      await this.#compareDeadlines();
      expect(this.leases.every(({ held }) => held)).toBe(true);
    }
  }

  /** The store's state of each key of the leases. */
  async states(): Promise<(InfoLeaseState | undefined)[]> {
    return Promise.all(this.leases.flatMap(namesOf).map((name) => this.#store.inspect(name)));
  }

  /** From now on the holders do not rely on their leases. */
  leave(): void {
    for (const lease of this.leases) this.#holders.leave(lease);
  }

  async release(): Promise<void> {
    this.leave();
    const released = await Promise.all(this.leases.map((lease) => lease.release()));
    expect(released).toEqual(this.leases.map(() => true));
  }

  /** Lets the rest of `minHold` pass, in which no waiter may get a key of the holder. */
  async passMinHold(): Promise<void> {
    const { clock } = this.#scene;
    const owners = this.leases.flatMap((lease) => namesOf(lease).map(() => keptOwner(lease.holder)));
    const end = this.#since + this.#times.minHold;
    // Without an injected clock, the store's may be a little ahead.
    const last = clock === undefined ? end - 10 : end - 1;
    clock?.advance(last - clock.now());
    for (;;) {
      const found = (await this.states()).map((state) => state?.owner);
      if (this.#now() > last) break;
      expect(found).toEqual(owners);
      if (clock === undefined) await delay(20);
      else clock.advance(this.#times.every);
    }
  }

  /** All waiters are served, and then nothing is held. */
  async end(): Promise<void> {
    const { clock, keepsForWaiters = false } = this.#scene;
    const served = watch(Promise.all(this.#waiting));
    while (keepsForWaiters && served.state === 'pending') {
      clock?.advance(1);
      await delay(1);
    }
    await served.promise;
    for (const name of ['a', 'a#slot1', 'b']) expect(await this.#store.inspect(name)).toBeUndefined();
  }

  async #compareDeadlines(): Promise<void> {
    for (const lease of this.leases) await this.#compareDeadline(lease);
  }

  /** The holder's deadline is not later than the store's. */
  async #compareDeadline(lease: Lease): Promise<void> {
    for (const name of namesOf(lease)) {
      const { expiresAt } = lease;
      const state = await this.#store.inspect(name);
      const now = this.#now();
      if (!lease.held) return;
      expect(state).toMatchObject({ owner: lease.holder });
      expect(expiresAt).toBeLessThanOrEqual(now + state!.remaining + this.#rounding);
    }
  }

  #now(): number {
    return this.#scene.clock?.now() ?? performance.now();
  }

  #managerOn(store: LeaseStore, extra: { minHold?: number }): LeaseManager {
    const { clock } = this.#scene;
    const { ttl, every } = this.#times;
    const { renew, isBackground } = this.#renewing;
    const manager = new LeaseManager({
      store,
      ttl,
      renew: renew(every),
      backoff: { initial: 2, max: 20 },
      ...(isBackground && { maxHold: MAX_HOLD }),
      ...(clock !== undefined && { clock }),
      ...extra,
    });
    onTestFinished(() => manager.close());
    return manager;
  }
}

/** The events in the life of a lease that is held and renewed. */
const EVENTS: readonly {
  readonly event: string;
  readonly hasMinHold?: boolean;
  readonly run: (row: Row) => Promise<void>;
}[] = [
  {
    event: 'gets a new info between renewals',
    async run(row) {
      row.waitInSameManager();
      for (const info of ['half', 'done']) {
        await row.renewed();
        expect(await Promise.all(row.leases.map((lease) => lease.setInfo(info)))).toEqual(
          row.leases.map(() => true),
        );
        for (const state of await row.states()) expect(state).toMatchObject({ info });
      }
      await row.renewed();
      for (const state of await row.states()) expect(state).toMatchObject({ info: 'done' });
      await row.release();
    },
  },
  {
    event: 'is released during a renewal, before its minHold is over',
    hasMinHold: true,
    async run(row) {
      row.waitInSameManager();
      await row.renewed();
      const renewing = row.leases.map((lease) => watch(lease.renew()));
      await row.release();
      await row.passMinHold();
      await Promise.all(renewing.map(({ promise }) => promise));
    },
  },
  {
    event: 'is drained',
    async run(row) {
      await row.renewed();
      const closing = watch(row.manager.close({ drain: Infinity }));
      await row.renewed();
      expect(closing.state).toBe('pending');
      await row.release();
      await closing.promise;
    },
  },
  {
    event: 'is closed during a renewal',
    async run(row) {
      await row.renewed();
      const signals = row.leases.map(({ signal }) => signal);
      const renewing = row.leases.map((lease) => watch(lease.renew()));
      row.leave();
      await row.manager.close();
      expect(row.leases.map(({ held }) => held)).toEqual(row.leases.map(() => false));
      expect(signals.map(({ aborted }) => aborted)).toEqual(signals.map(() => true));
      // The store may fail to answer once nothing waits for it.
      await Promise.allSettled(renewing.map(({ promise }) => promise));
    },
  },
];

const ROWS = KINDS.flatMap((kind) =>
  RENEWALS_BY.flatMap((renewing) =>
    EVENTS.map((event) => [kind.kind, renewing.how, event.event, kind, renewing, event] as const),
  ),
);

const BACKGROUND = { renew: { background: true }, maxHold: MAX_HOLD };

interface Refused {
  readonly what: string;
  readonly keys: string | readonly string[];
  readonly options: AcquireLeaseOptions;
  readonly manager?: WarningLeaseManagerOptions;
  readonly code: string;
  /** Not of a memory store. */
  readonly isOutside?: boolean;
}

function boundToThread({ kind, keys, limit }: Kind): Refused {
  const what = `a lease of ${kind} that is renewed by the background, which cannot open the store,`;
  return { what, keys, options: { ...BACKGROUND, limit }, code: 'ERR_LEASE_BACKGROUND' };
}

/** Combinations that are refused before the store is asked. `manager`: its options. */
const REFUSED: readonly Refused[] = [
  {
    what: 'permits of several keys',
    keys: ['a', 'b'],
    options: { limit: 2 },
    code: 'ERR_OUT_OF_RANGE',
  },
  {
    what: 'permits of several keys that are renewed by the background',
    keys: ['a', 'b'],
    options: { ...BACKGROUND, limit: 2 },
    code: 'ERR_OUT_OF_RANGE',
  },
  {
    what: 'a lease that is renewed by the background without maxHold',
    keys: 'a',
    options: { renew: { background: true } },
    code: 'ERR_OUT_OF_RANGE',
  },
  {
    what: 'a lease that is renewed by the background on an injected clock',
    keys: 'a',
    options: BACKGROUND,
    manager: { clock: new FixedClock() },
    code: 'ERR_LEASE_BACKGROUND',
    isOutside: true,
  },
];

/** The differences between stores. */
export interface StoreTraits {
  /** Milliseconds by which the store's answer to `inspect` may be below the remaining time. Default 2. */
  readonly rounding?: number;
  /** Whether it is a memory store, which other threads read with its injected clock. */
  readonly isMemory?: boolean;
  /** Whether no other thread can open the store, so that renewal by the background is refused. */
  readonly isBoundToThread?: boolean;
}

/** Each kind of lease, with each kind of renewal, through each event; and the combinations that are refused. */
export function describePairs(start: StartScene, traits: StoreTraits = {}): void {
  const { rounding = 2, isMemory = false, isBoundToThread = false } = traits;
  const isRefused = ({ isBackground }: Renewing): boolean => isBackground && isBoundToThread;

  it.each(ROWS.filter(([, , , , renewing]) => !isRefused(renewing)))(
    'a lease of %s that is renewed by %s, and %s',
    async (_kind, _how, _event, kind, renewing, event) => {
      const row = new Row(await start(renewing.isBackground), renewing, rounding);
      await row.begin(kind, event.hasMinHold === true);
      await event.run(row);
      await row.end();
    },
  );

  const bound = isBoundToThread ? KINDS.map((kind) => boundToThread(kind)) : [];
  const refused = REFUSED.filter(({ isOutside }) => !isMemory || isOutside !== true);
  it.each([...refused, ...bound].map((one) => [one.what, one] as const))(
    '%s is refused',
    async (_what, { keys, options, manager, code }) => {
      const store = await (await start(true)).open();
      const leases = new LeaseManager({ store, ...manager });
      expect(await rejectionOf(leases.acquire(keys, options))).toMatchObject({ code });
      for (const key of ['a', 'b']) expect(await store.inspect(key)).toBeUndefined();
    },
  );
}
