import { performance } from '../../common/host.js';
import { LeaseStoreError } from '../../lease/contract/errors.js';
import { checkInfo } from '../../lease/contract/info.js';
import { grantInTime } from '../../lease/contract/late-grant.js';
import {
  checkKey,
  checkOwner,
  checkTtl,
  type FencingToken,
  type InfoLeaseState,
  type InfoLeaseStore,
  type LeaseStoreSource,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import { checkKeyList, type SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import { withoutDrift } from '../drift.js';
import { acquire, type Granted } from './acquire.js';
import { Cluster } from './cluster.js';
import { EtcdLeases, lengthFor } from './etcd-leases.js';
import { KeyNames, tokenOf, type Grant } from './grant.js';
import { HeldKeys } from './held.js';
import { Operation } from './operation.js';
import { resolveOptions, type EtcdLeaseStoreOptions } from './options.js';
import type { Parts, Wanted } from './parts.js';
import { release } from './release.js';
import { Releases } from './releases.js';
import { renew, type Renewing } from './renew.js';
import { Renewals } from './renewals.js';
import { read } from './requests.js';
import { TokenBase } from './token-base.js';

/** A transaction has at most 128 conditions, unless the servers are told otherwise: one, and two for each key. */
const MOST_KEYS = 63;
/** Seconds for which ending an etcd lease is tried whose length is unknown. */
const UNKNOWN_LENGTH = 30;

/**
 * Leases in etcd 3.4 or later, for the processes of many machines. The servers agree on each grant before it is given, so
 * it outlasts the loss of any minority of them. No client library is needed: the store speaks to the JSON gateway that
 * every etcd has.
 *
 * A lease lasts for whole seconds there, at least as many as the servers' shortest lease has (2 with default settings), so
 * a lease that is not released ends late, never early. An operation rejects with LeaseStoreError if no server can answer
 * within `timeout`. A grant that comes later is given back. `close` ends all connections.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
 */
export function etcdLeaseStore(
  options: EtcdLeaseStoreOptions,
): WakingLeaseStore & SeveralKeysLeaseStore & InfoLeaseStore & ReopenableLeaseStore {
  return new EtcdLeaseStore(options);
}

class EtcdLeaseStore
  implements WakingLeaseStore, SeveralKeysLeaseStore, InfoLeaseStore, ReopenableLeaseStore
{
  readonly source: LeaseStoreSource;
  readonly #parts: Parts;
  readonly #releases: Releases;
  readonly #renewals = new Renewals(MOST_KEYS, (keys) => this.#renew(keys));
  readonly #drift: number;
  #closed = false;

  constructor(options: EtcdLeaseStoreOptions) {
    const settings = resolveOptions(options);
    this.source = settings.source;
    this.#drift = settings.drift;
    const cluster = new Cluster(settings);
    const names = new KeyNames(settings.prefix);
    const leases = new EtcdLeases(cluster, settings.drift);
    const held = new HeldKeys();
    const dispose = (name: string, grant: Grant): void => {
      const lease = held.take(name, grant);
      if (lease) leases.park(lease);
      else leases.withdraw({ id: grant.lease, seconds: UNKNOWN_LENGTH, made: true });
    };
    this.#parts = { cluster, names, base: new TokenBase(cluster, names.base), leases, held, dispose };
    this.#releases = new Releases(cluster, names.all);
  }

  async tryAcquire(
    key: string,
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<FencingToken | undefined> {
    const tokens = await this.#acquire([this.#nameOf(key)], this.#wanted(owner, ttl, info), ttl);
    return typeof tokens === 'number' ? undefined : tokens[0];
  }

  async tryAcquireAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly FencingToken[] | number> {
    return this.#acquire(this.#namesOf(keys), this.#wanted(owner, ttl, info), ttl);
  }

  async renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    return this.#renewals.add({ name: this.#nameOf(key), wanted: this.#wanted(owner, ttl, info) });
  }

  async renewAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly boolean[]> {
    const wanted = this.#wanted(owner, ttl, info);
    return this.#renew(this.#namesOf(keys).map((name) => ({ name, wanted })));
  }

  async release(key: string, owner: string): Promise<boolean> {
    const [freed] = await this.#release([this.#nameOf(key)], checkOwner(owner));
    return freed!;
  }

  async releaseAll(keys: readonly string[], owner: string): Promise<readonly boolean[]> {
    return this.#release(this.#namesOf(keys), checkOwner(owner));
  }

  inOneStep(keys: readonly string[]): boolean {
    return checkKeyList(keys).length <= MOST_KEYS;
  }

  async inspect(key: string): Promise<InfoLeaseState | undefined> {
    const name = this.#nameOf(key);
    const { cluster } = this.#parts;
    return this.#run(async (operation) => {
      for (let ended = ''; ;) {
        const [grant] = (await read(cluster, operation, [name])).grants;
        if (grant === undefined || grant.lease === ended) return undefined;
        const { message } = await cluster.call(operation, 'lease/timetolive', { ID: grant.lease });
        const seconds = Number(message.TTL ?? 0);
        const { owner, base, revision, info } = grant;
        // Whole seconds that are left. In the last one it is still held.
        const remaining = withoutDrift(seconds * 1000, this.#drift);
        const state = { owner, token: tokenOf(base, revision), remaining };
        if (seconds >= 0) return info === '' ? state : { ...state, info };
        // The key has ended with it since, or is bound to another one.
        ended = grant.lease;
      }
    });
  }

  onRelease(key: string, listener: () => void): () => void {
    return this.#releases.listen(this.#nameOf(key), listener);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#releases.close();
    await this.#parts.leases.close();
    this.#parts.cluster.close();
  }

  async #acquire(
    names: readonly string[],
    wanted: Wanted,
    ttl: number,
  ): Promise<readonly FencingToken[] | number> {
    const parts = this.#parts;
    const giveBack = (granted: Granted | number): void => {
      if (typeof granted === 'number') return;
      granted.names.forEach((name, i) => {
        parts.held.forget(name);
        parts.leases.withdraw(granted.leases[i]!);
      });
    };
    const at = performance.now();
    const looksFirst = this.#releases.expectsRefusal(names);
    const granted = await this.#run(
      (operation) => acquire(parts, operation, names, wanted, looksFirst),
      giveBack,
    );
    if (typeof granted === 'number') return granted;
    const asked = { store: 'etcd', at, ttl };
    return grantInTime(granted.tokens, asked, performance.now(), () => giveBack(granted));
  }

  #renew(keys: readonly Renewing[]): Promise<boolean[]> {
    return this.#run((operation) => renew(this.#parts, operation, keys));
  }

  #release(names: readonly string[], owner: string): Promise<boolean[]> {
    return this.#run((operation) => release(this.#parts, operation, names, owner));
  }

  #run<T>(body: (operation: Operation) => Promise<T>, late?: (result: T) => void): Promise<T> {
    if (this.#closed) return Promise.reject(new LeaseStoreError('the etcd lease store was closed'));
    return Operation.run(this.#parts.cluster.replies, body, late);
  }

  #nameOf(key: string): string {
    return this.#parts.names.of(checkKey(key));
  }

  #namesOf(keys: readonly string[]): string[] {
    return checkKeyList(keys).map((key) => this.#parts.names.of(key));
  }

  #wanted(owner: string, ttl: number, info: string | undefined): Wanted {
    return {
      owner: checkOwner(owner),
      info: info === undefined ? undefined : checkInfo(info),
      length: lengthFor(checkTtl(ttl), this.#drift),
    };
  }
}
