import type { Owned } from './server-store.js';

/** A grant that arrived late. */
interface LateGrant {
  readonly owner: string;
  readonly name: string;
  readonly verdict: () => void;
}

/**
 * Delays the decision whether to give back a late grant, which is a grant that arrived after its attempt
 * timed out. A late grant may have replaced another grant on which the owner relies. Whether this has
 * happened is known only after all other pending attempts of this owner for this key have ended.
 */
export class LateGrants {
  /** The attempts whose callers still wait for an answer. */
  readonly #awaited = new Set<Owned>();
  #undecided: LateGrant[] = [];

  /** Call when an attempt is sent. */
  begin(attempt: Owned): void {
    this.#awaited.add(attempt);
  }

  /** Call when the caller of the attempt has an answer, or when the attempt has timed out. */
  end(attempt: Owned): void {
    this.#awaited.delete(attempt);
    const undecided = this.#undecided;
    if (undecided.length === 0) return;
    this.#undecided = undecided.filter((grant) => !isFor(attempt, grant));
    for (const grant of undecided) if (isFor(attempt, grant)) this.#decide(grant);
  }

  /**
   * For each key, calls `verdict` with the key's index once no attempt of the owner for that key is pending.
   */
  decide({ names, owner }: Owned, verdict: (place: number) => void): void {
    names.forEach((name, place) => this.#decide({ owner, name, verdict: () => verdict(place) }));
  }

  #decide(grant: LateGrant): void {
    for (const attempt of this.#awaited) {
      if (!isFor(attempt, grant)) continue;
      this.#undecided.push(grant);
      return;
    }
    grant.verdict();
  }
}

function isFor({ names, owner }: Owned, grant: LateGrant): boolean {
  return owner === grant.owner && names.includes(grant.name);
}
