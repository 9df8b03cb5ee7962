import { performance } from '../../common/host.js';
import { grantInTime } from '../../lease/contract/late-grant.js';
import type { FencingToken } from '../../lease/contract/lease-store.js';
import type { Overdue, OverdueAttempt } from '../overdue.js';
import type { KeyNames } from './key-names.js';
import type { Releases } from './releases.js';
import { ACQUIRE_ALL, RELEASE_ALL, RENEW_ALL } from './scripts-for-several.js';
import { BEFORE_INFO, type Script } from './scripts.js';

const MICROSECOND = 1000n;
/** What Redis says of keys in different slots of a cluster, and proxies say in other words. */
const APART = /CROSSSLOT|same slot/i;

/** What to do if an operation is not answered in time. */
export interface Late {
  timedOut(): void;
  /** Called when it was answered after all, or failed without a reply. */
  settled(reply?: unknown): void;
}

/** What operations on several keys need of the store. */
export interface StoreParts {
  readonly isCluster: boolean;
  readonly overdue: Overdue;
  readonly releases: Releases;
  /** By bucket, the highest token that this client has received. */
  readonly highest: Map<string, FencingToken>;
  run(script: Script, keys: readonly string[], args: readonly string[], late?: Late): Promise<unknown>;
  /** The reply for each lease. Rejects if it may have been freed before. */
  release(script: Script, keys: readonly string[], owner: string): Promise<readonly number[]>;
  /** Frees exactly the grant with that token. */
  giveBack(names: KeyNames, owner: string, token: string): void;
}

/** What is asked for several keys, all encoded. */
export interface Wanted {
  readonly owner: string;
  readonly milliseconds: string;
  readonly info: string | undefined;
  /** The time to live that the caller counts on. */
  readonly ttl: number;
}

/** The operations of a Redis store on several keys, each one script and one round trip. */
export class SeveralKeys {
  readonly #parts: StoreParts;
  /** Whether the client seems to be of a single server, but leads to a cluster. */
  #isApart = false;

  constructor(parts: StoreParts) {
    this.#parts = parts;
  }

  inOneStep(names: readonly KeyNames[]): boolean {
    const oneBucket = names.every(({ highest }) => highest === names[0]?.highest);
    return oneBucket || !(this.#parts.isCluster || this.#isApart);
  }

  /** Tokens, or the place of a key that another owner has. */
  async tryAcquire(names: readonly KeyNames[], wanted: Wanted): Promise<readonly FencingToken[] | number> {
    const { overdue } = this.#parts;
    const refused = names.map(({ lease }) => overdue.overtake(lease, wanted.owner));
    let tokens: readonly FencingToken[] | number = 0;
    try {
      tokens = await this.#tryAcquire(names, wanted);
      return tokens;
    } finally {
      if (typeof tokens === 'number') for (const notGranted of refused) notGranted?.();
    }
  }

  async renew(names: readonly KeyNames[], { owner, milliseconds, info }: Wanted): Promise<boolean[]> {
    const args = info === undefined ? [owner, milliseconds] : [owner, milliseconds, textOf(info)];
    const keys = names.flatMap(({ lease, highest }) => [lease, highest]);
    const results = (await this.#run(RENEW_ALL, keys, args)) as unknown[];
    return results.map((result) => Number(result) === 1);
  }

  async release(names: readonly KeyNames[], owner: string): Promise<boolean[]> {
    const keys = names.flatMap(({ lease, waiters }) => [lease, waiters]);
    const results = await this.#noticing(() => this.#parts.release(RELEASE_ALL, keys, owner));
    return results.map((result, i) => {
      if (result === 1) this.#parts.releases.wake(names[i]!.lease);
      return result > 0;
    });
  }

  async #tryAcquire(
    names: readonly KeyNames[],
    { owner, milliseconds, info, ttl }: Wanted,
  ): Promise<readonly FencingToken[] | number> {
    const { highest, releases } = this.#parts;
    const at = performance.now();
    const floors = names.map((name) => String((highest.get(name.highest) ?? 0n) / MICROSECOND));
    const keys = names.flatMap((name) => [name.lease, name.highest]);
    const args = [owner, milliseconds, textOf(info ?? ''), ...floors];
    const reply = await this.#run(ACQUIRE_ALL, keys, args, this.#late(names, owner));
    const [granted, ...rest] = reply as unknown[];
    if (Number(granted) === 0) {
      const place = Number(rest[0]);
      releases.endsIn(names[place]!.lease, Number(rest[1]));
      return place;
    }
    const tokens = rest.map((token) => BigInt(String(token)));
    names.forEach((name, i) => highest.set(name.highest, tokens[i]!));
    const giveBack = (): void => this.#giveBack(names, owner, rest);
    return grantInTime(tokens, { store: 'Redis', at, ttl }, performance.now(), giveBack);
  }

  /** Gives back grants that come after their attempt has failed, unless their owner has the lease through a later attempt. */
  #late(names: readonly KeyNames[], owner: string): Late {
    const { overdue } = this.#parts;
    let attempts: readonly OverdueAttempt[] = [];
    return {
      timedOut: () => {
        attempts = names.map(({ lease }) => overdue.add(lease, owner));
      },
      settled: (reply) => {
        names.forEach(({ lease }, i) => overdue.remove(lease, owner, attempts[i]!));
        const [granted, ...tokens] = (reply ?? [0]) as unknown[];
        if (Number(granted) === 0) return;
        const free = names.map((name, i) => ({ name, i })).filter(({ i }) => attempts[i]!.overtaken === 0);
        this.#giveBack(
          free.map(({ name }) => name),
          owner,
          free.map(({ i }) => tokens[i]),
        );
      },
    };
  }

  #giveBack(names: readonly KeyNames[], owner: string, tokens: readonly unknown[]): void {
    for (let i = names.length - 1; i >= 0; i--) this.#parts.giveBack(names[i]!, owner, String(tokens[i]));
  }

  #run(script: Script, keys: readonly string[], args: readonly string[], late?: Late): Promise<unknown> {
    return this.#noticing(() => this.#parts.run(script, keys, args, late));
  }

  /** Notices whether keys are on different servers. */
  async #noticing<T>(operation: () => Promise<T>): Promise<T> {
    try {
      return await operation();
    } catch (error) {
      if (APART.test(String(error))) this.#isApart = true;
      throw error;
    }
  }
}

/** As it stands behind an owner. */
export function textOf(info: string): string {
  return info === '' ? '' : BEFORE_INFO + info;
}
