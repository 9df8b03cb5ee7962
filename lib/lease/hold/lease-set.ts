import { randomName } from '../../common/random-name.js';
import { LeaseLostError, noSingleKey } from '../contract/errors.js';
import type { FencingToken } from '../contract/lease-store.js';
import type { Hold } from './hold.js';
import { MATE_LOST, unite } from './mates.js';

/** One of the keys of a lease: what the store granted for it, and what joined that. */
export interface Part {
  readonly hold: Hold;
  readonly user: object;
}

/** What several keys need of their manager. */
export interface SetContext {
  /** What these parts ask of the store while the body runs goes there together, if the store can. */
  together<T>(body: () => T): T;
}

/**
 * The holds of one lease, in the order in which their keys are taken. The lease is held while all of them are. If one is
 * lost, the others are not renewed any more, unless other leases share them. The store keeps them until the holder, who
 * may still be working, releases the lease, or until they expire.
 */
export class LeaseSet {
  readonly keys: readonly string[];
  readonly #parts: readonly Part[];
  readonly #context: SetContext;
  readonly #ttl: number;
  /** What its signals may refer to. */
  readonly bond: Bond;
  /** The name of a lease of no keys, which no store knows. */
  #name: string | undefined;
  /** What this lease was the last to use and has not freed; undefined until it is released. */
  #toFree: readonly Hold[] | undefined;

  /** `ttl`: of its terms. */
  constructor(keys: readonly string[], parts: readonly Part[], context: SetContext, ttl: number) {
    this.keys = Object.freeze(keys);
    this.#parts = parts;
    this.#context = context;
    this.#ttl = ttl;
    const holds = parts.map(({ hold }) => hold);
    this.bond = new Bond(holds);
    unite(holds);
  }

  /** The lease joins nothing: each part has its own user. */
  join(): void {
    return;
  }

  get key(): never {
    throw noSingleKey('key', this.keys);
  }

  get token(): never {
    throw noSingleKey('token', this.keys);
  }

  get tokens(): ReadonlyMap<string, FencingToken> {
    return new Map(this.#parts.map(({ hold }) => [hold.key, hold.token]));
  }

  get owner(): string {
    return this.#parts[0]?.hold.owner ?? (this.#name ??= randomName());
  }

  get terms(): { readonly ttl: number } {
    return { ttl: this.#ttl };
  }

  /** Infinity without keys. */
  get expiresAt(): number {
    return this.#parts.reduce((soonest, { hold }) => Math.min(soonest, hold.expiresAt), Infinity);
  }

  get lostReason(): string | undefined {
    return this.#lost()?.lostReason;
  }

  /** Of the key that most leases use. Without keys, this lease. */
  get users(): number {
    if (this.#parts.length === 0) return this.#toFree === undefined ? 1 : 0;
    return Math.max(...this.#parts.map(({ hold }) => hold.users));
  }

  discard(): void {
    for (const { hold } of this.#parts) discardHold(hold);
  }

  look(): boolean {
    return this.bond.look();
  }

  /** Names the key that was lost first or, if none was, the first key. */
  lostError(reason: string): LeaseLostError {
    const hold = this.#lost() ?? this.#parts[0]?.hold;
    return hold?.lostError(reason) ?? new LeaseLostError('', 0n, reason);
  }

  abortWhenLost(controller: AbortController): void {
    this.bond.add(controller);
  }

  async renew(ttl: number, info?: string): Promise<boolean> {
    const renewing = this.#context.together(() => this.#parts.map(({ hold }) => hold.renew(ttl, info)));
    return all(await Promise.allSettled(renewing));
  }

  /** True if it was the last to use any of its keys. */
  leave(_lease: object, controller: AbortController | undefined): boolean {
    if (controller !== undefined) this.bond.delete(controller);
    const last = this.#parts.filter(({ hold, user }) => hold.leave(user, this.bond));
    this.#toFree = last.map(({ hold }) => hold).reverse();
    return last.length > 0 || this.#parts.length === 0;
  }

  /** In reverse order. True if this call freed all of its keys. Rejects with the first LeaseStoreError; can be repeated. */
  async release(): Promise<boolean> {
    const holds = this.#toFree ?? [];
    const freeing = this.#context.together(() => holds.map((hold) => hold.release()));
    const results = await Promise.allSettled(freeing);
    this.#toFree = holds.filter((_, i) => results[i]!.status === 'rejected');
    return all(results) && holds.length === this.#parts.length;
  }

  /** Whether it was released, and nobody else uses what it did not free. */
  get unused(): boolean {
    return this.#toFree?.every((hold) => hold.unused) === true;
  }

  /** The first that was lost. */
  #lost(): Hold | undefined {
    const lost = this.#parts.filter(({ hold }) => hold.lostReason !== undefined);
    return (lost.find(({ hold }) => hold.lostReason !== MATE_LOST) ?? lost[0])?.hold;
  }
}

/** Ends what is left of a lease when one of its holds is lost, and aborts its signals. It does not refer to the lease. */
class Bond {
  readonly #holds: readonly Hold[];
  readonly #controllers = new Set<AbortController>();
  #isLost = false;

  constructor(holds: readonly Hold[]) {
    this.#holds = holds;
    for (const hold of holds) hold.abortWhenLost(this);
  }

  add(controller: AbortController): void {
    this.#controllers.add(controller);
  }

  look(): boolean {
    return this.#holds.every((hold) => hold.look());
  }

  /** Whether the controller will still be aborted when a hold is lost. */
  watchesFor(controller: AbortController): boolean {
    return !this.#isLost && this.#controllers.has(controller);
  }

  delete(controller: AbortController): void {
    this.#controllers.delete(controller);
  }

  /** Called by the hold that was lost first, and then by those that end because of that. */
  abort(error: unknown): void {
    if (this.#isLost) return;
    this.#isLost = true;
    for (const hold of this.#holds) if (hold.users <= 1) hold.lose(MATE_LOST);
    for (const controller of this.#controllers) controller.abort(error);
  }
}

/** Whether each was fulfilled with true. Throws the first error. */
function all(results: readonly PromiseSettledResult<boolean>[]): boolean {
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  return results.every((result) => result.status === 'fulfilled' && result.value);
}

/** Nobody got to use the lease: its release frees it at once. */
export function discardHold(hold: Hold): void {
  if (hold.terms.minHold > 0 && hold.users <= 1) hold.terms = { ...hold.terms, minHold: 0 };
}
