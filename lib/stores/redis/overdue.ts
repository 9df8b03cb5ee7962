/** An attempt that was not answered in time. Its grant may have come, or come yet. */
export interface OverdueAttempt {
  /**
   * Later attempts of the same owner at the same lease which are under way or were granted. While there are any, the
   * lease must not be given back by this attempt: the server may have come to it last, and know the owner's lease by
   * its token.
   */
  overtaken: number;
}

/** Those of a store, by lease and owner. */
export class Overdue {
  readonly #attempts = new Map<string, Set<OverdueAttempt>>();

  add(lease: string, owner: string): OverdueAttempt {
    const id = idOf(lease, owner);
    const attempt = { overtaken: 0 };
    const others = this.#attempts.get(id);
    if (others) others.add(attempt);
    else this.#attempts.set(id, new Set([attempt]));
    return attempt;
  }

  /** It was answered, or has failed for good. */
  remove(lease: string, owner: string, attempt: OverdueAttempt): void {
    const id = idOf(lease, owner);
    const attempts = this.#attempts.get(id);
    attempts?.delete(attempt);
    if (attempts?.size === 0) this.#attempts.delete(id);
  }

  /** Another attempt is sent. Returns what to call if it fails, or is refused. */
  overtake(lease: string, owner: string): (() => void) | undefined {
    const attempts = this.#attempts.size === 0 ? undefined : this.#attempts.get(idOf(lease, owner));
    if (attempts === undefined) return undefined;
    const overtaken = [...attempts];
    for (const attempt of overtaken) attempt.overtaken++;
    return () => {
      for (const attempt of overtaken) attempt.overtaken--;
    };
  }
}

function idOf(lease: string, owner: string): string {
  return `${owner.length}:${owner}${lease}`;
}
