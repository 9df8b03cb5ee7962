import type { Late } from './requests.js';
import type { Granted, Refused, Wanted } from './server-store.js';

/**
 * The attempts of a store that had no answer in time. What one is granted after that is given back, unless its owner has asked
 * for the key again: the server may have executed the earlier attempt last, and then the owner's lease has its token.
 */
export class LateGrants {
  /** The last attempt of each owner for each key, if it is overdue. */
  readonly #overdue = new Map<string, object>();

  /** An attempt is sent. */
  sent({ names, owner }: Wanted): Late<Granted | Refused> {
    const ids = names.map((name) => `${owner.length}:${owner}${name}`);
    for (const id of ids) this.#overdue.delete(id);
    const attempt: Late<Granted | Refused> = {
      timedOut: () => {
        for (const id of ids) this.#overdue.set(id, attempt);
      },
      settled: (answer) => {
        ids.forEach((id, i) => {
          if (this.#overdue.get(id) !== attempt) return;
          this.#overdue.delete(id);
          if (answer && 'tokens' in answer) answer.giveBack(i);
        });
      },
    };
    return attempt;
  }
}
