import type { Late } from './requests.js';
import type { Granted, Refused, Wanted } from './server-store.js';

/** A key of an attempt that was not answered in time. It may have been granted, or may still be. */
interface Overdue {
  /**
   * How many later attempts of the same owner at the same key are pending or were granted. While there are any, this attempt
   * must not give the key back: the server may have executed this attempt last, and then the owner's lease has its token.
   */
  overtaken: number;
}

/** The overdue attempts of a store, by key and owner. */
export type AllOverdue = Map<string, Set<Overdue>>;

const NONE: readonly Overdue[] = [];

/**
 * An attempt that is sent. What is granted after it has failed is given back, unless its owner has the lease through a later
 * attempt: that may have been executed before.
 */
export class LateGrant implements Late<Granted | Refused> {
  readonly #all: AllOverdue;
  readonly #wanted: Wanted;
  /** Keys of earlier attempts that this one overtakes. */
  readonly #overtaken: readonly Overdue[];
  /** Its own keys, once it is overdue. */
  #own = NONE;

  constructor(all: AllOverdue, wanted: Wanted) {
    this.#all = all;
    this.#wanted = wanted;
    this.#overtaken = all.size === 0 ? NONE : idsOf(wanted).flatMap((id) => [...(all.get(id) ?? [])]);
    for (const earlier of this.#overtaken) earlier.overtaken++;
  }

  /** It has failed, or was refused. */
  notGranted(): void {
    for (const earlier of this.#overtaken) earlier.overtaken--;
  }

  timedOut(): void {
    this.#own = idsOf(this.#wanted).map((id) => {
      const key = { overtaken: 0 };
      const others = this.#all.get(id);
      if (others) others.add(key);
      else this.#all.set(id, new Set([key]));
      return key;
    });
  }

  settled(answer?: Granted | Refused): void {
    const ids = idsOf(this.#wanted);
    this.#own.forEach((key, i) => {
      const id = ids[i]!;
      const all = this.#all.get(id)!;
      all.delete(key);
      if (all.size === 0) this.#all.delete(id);
      if (answer && 'tokens' in answer && key.overtaken === 0) answer.giveBack(i);
    });
  }
}

function idsOf({ names, owner }: Wanted): readonly string[] {
  return names.map((name) => `${owner.length}:${owner}${name}`);
}
