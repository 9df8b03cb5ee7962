import { keyName } from '../common/errors.js';
import type { LockMode } from '../common/types.js';
import type { BegunLeaseWait, EndedLeaseWait, LeaseCall } from '../engine/contract/contention.js';
import { OBSERVED_CELL, type ThreadCounts } from '../engine/contract/counts.js';
import { OBSERVE_PROFILE } from '../engine/contract/layout.js';
import { leaseRecorder } from '../engine/select.js';
import { startRequestedProfile } from '../profile/requested.js';
import { sourceOf, type LeaseStore } from './contract/lease-store.js';

/** The holders of a key, as far as they are known without a request to the store. */
export type KnownHolders = Pick<EndedLeaseWait, 'holders' | 'owners'>;

const NO_HOLDERS: KnownHolders = { holders: [], owners: [] };

/** The contention of one manager's leases, for profiles. It records nothing while no profile is running. */
export class LeaseContention {
  readonly name: string;
  readonly #counts: ThreadCounts;
  readonly #store: LeaseStore;
  #storeId: string | undefined;

  /** `name`: the name of the manager. */
  constructor(counts: ThreadCounts, name: string, store: LeaseStore) {
    startRequestedProfile();
    this.#counts = counts;
    this.name = name;
    this.#store = store;
  }

  /** Whether a profile of the manager's leases is running. */
  get isOn(): boolean {
    return (this.#counts[OBSERVED_CELL]! & OBSERVE_PROFILE) !== 0;
  }

  /**
   * Call this before a release is sent, while the program's call is on the stack. Call the returned function to
   * record the release: at once for an exclusive lease; for a reader, once its release may have freed the key.
   * Undefined if the release is not recorded.
   */
  releasing(key: string): (() => void) | undefined {
    return this.isOn ? leaseRecorder()?.releasing(this.idOf(key)) : undefined;
  }

  /**
   * Identifies the key among the leases of all threads. A store that another thread can open again is
   * identified by its source. Another store is identified by the name of its manager.
   */
  idOf(key: string): string {
    return `${(this.#storeId ??= storeIdOf(this.#store, this.name))} ${key}`;
  }
}

/** The source is hashed, because its options may contain a password, and may be large. */
export function storeIdOf(store: LeaseStore, name: string): string {
  // `node:crypto` is loaded lazily; see `randomName`.
  const { getBuiltinModule } = process as Partial<Pick<NodeJS.Process, 'getBuiltinModule'>>;
  try {
    const source = sourceOf(store);
    if (source !== undefined && getBuiltinModule !== undefined) {
      const { module } = source;
      // A URL cannot be cloned.
      const url = module instanceof URL ? module.href : module;
      const bytes = getBuiltinModule('node:v8').serialize({ ...source, module: url });
      return getBuiltinModule('node:crypto').createHash('sha256').update(bytes).digest('hex');
    }
  } catch {
    // The options of the source may contain a function, for example.
  }
  return JSON.stringify(name);
}

/** A call of a manager that may have to wait, while a profile is running. */
export class ProfiledCall {
  readonly #contention: LeaseContention;
  readonly #call: LeaseCall | undefined;
  #wait: BegunLeaseWait | undefined = undefined;
  readonly #mode: LockMode;
  #key = '';

  /**
   * Call this while the program's call is on the stack. `since`: when the call began, by
   * `performance.now()`.
   */
  constructor(contention: LeaseContention, mode: LockMode, since: number) {
    this.#contention = contention;
    this.#mode = mode;
    this.#call = leaseRecorder()?.call(since);
  }

  /** Call this when the call has to wait for the key. */
  begin(key: string): void {
    if (this.#call === undefined) return;
    this.#key = key;
    this.#wait = leaseRecorder()?.began(this.#call, this.#contention.idOf(key));
  }

  /**
   * Call this when the call ends, whether or not it had to wait. `holdersOf`: called if the key was not
   * granted.
   */
  end(outcome: EndedLeaseWait['outcome'], holdersOf?: (key: string) => KnownHolders): void {
    const wait = this.#wait;
    if (wait === undefined) return;
    const key = this.#key;
    const [lock, mode] = [this.#contention.name, this.#mode];
    leaseRecorder()?.ended(wait, () => {
      return { lock, key: keyName(key), mode, outcome, ...(holdersOf?.(key) ?? NO_HOLDERS) };
    });
  }
}
