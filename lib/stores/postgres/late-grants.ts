import { Overdue, type OverdueAttempt } from '../overdue.js';
import type { Row } from './connection.js';
import type { Late } from './requests.js';

/**
 * Gives back what is granted after its attempt has failed, unless its owner has the lease through a later attempt: on
 * another connection that may have been executed before.
 */
export class LateGrants {
  readonly #overdue = new Overdue();
  readonly #giveBack: (key: string, owner: string, token: string) => void;

  /** `giveBack`: must free exactly the grant of that token. */
  constructor(giveBack: (key: string, owner: string, token: string) => void) {
    this.#giveBack = giveBack;
  }

  /** An attempt at the keys is sent. Returns a function to call if it fails or is refused. */
  begin(keys: readonly string[], owner: string): () => void {
    const overtaken = keys.map((key) => this.#overdue.overtake(key, owner));
    return () => {
      for (const notGranted of overtaken) notGranted?.();
    };
  }

  /** For that attempt. `tokensOf`: what was granted, in the order of the keys; undefined if nothing was. */
  late(
    keys: readonly string[],
    owner: string,
    tokensOf: (rows: readonly Row[]) => readonly string[] | undefined,
  ): Late {
    let attempts: readonly OverdueAttempt[] = [];
    return {
      timedOut: () => {
        attempts = keys.map((key) => this.#overdue.add(key, owner));
      },
      settled: (rows = []) => {
        const tokens = tokensOf(rows);
        keys.forEach((key, i) => {
          const attempt = attempts[i]!;
          this.#overdue.remove(key, owner, attempt);
          if (tokens && attempt.overtaken === 0) this.#giveBack(key, owner, tokens[i]!);
        });
      },
    };
  }
}
