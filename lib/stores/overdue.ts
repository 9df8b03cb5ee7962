import type { Late } from './requests.js';
import type { Granted, Refused, Wanted } from './server-store.js';

/** An attempt that was not answered in time. It may have been granted, or may still be. */
export interface OverdueAttempt {
  /**
   * How many later attempts of the same owner at the same lease are pending or were granted. While there are any, this
   * attempt must not give the lease back: the server may have executed this attempt last, and then the owner's lease
   * has its token.
   */
  overtaken: number;
}

/** The overdue attempts of a store, by lease and owner. */
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

  /** The attempt was answered, or has failed for good. */
  remove(lease: string, owner: string, attempt: OverdueAttempt): void {
    const id = idOf(lease, owner);
    const attempts = this.#attempts.get(id);
    attempts?.delete(attempt);
    if (attempts?.size === 0) this.#attempts.delete(id);
  }

  /** Another attempt is sent. Returns a function to call if that fails, or is refused. */
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

/**
 * Gives back what is granted after its attempt has failed, unless its owner has the lease through a later attempt: that may
 * have been executed before.
 */
export class LateGrants {
  readonly #overdue = new Overdue();

  /** An attempt is sent. Returns a function to call if it fails or is refused. */
  overtake({ names, owner }: Wanted): () => void {
    const overtaken = names.map((name) => this.#overdue.overtake(name, owner));
    return () => {
      for (const notGranted of overtaken) notGranted?.();
    };
  }

  /** For that attempt. */
  late({ names, owner }: Wanted): Late<Granted | Refused> {
    let attempts: readonly OverdueAttempt[] = [];
    return {
      timedOut: () => {
        attempts = names.map((name) => this.#overdue.add(name, owner));
      },
      settled: (answer) => {
        attempts.forEach((attempt, i) => {
          this.#overdue.remove(names[i]!, owner, attempt);
          if (answer && 'tokens' in answer && attempt.overtaken === 0) answer.giveBack(i);
        });
      },
    };
  }
}

function idOf(lease: string, owner: string): string {
  return `${owner.length}:${owner}${lease}`;
}
