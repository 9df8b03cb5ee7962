import type { Owned } from './server-store.js';

/** Attempts of one owner at one key. */
interface Attempts {
  /** How many of them have a caller who waits for the answer. */
  awaited: number;
  /** Called when `awaited` is 0. */
  readonly verdicts: (() => void)[];
}

/**
 * Grants that are answered after the time limit of their attempt. Until the later attempts of the same owner at the same key
 * are answered, it is unknown whether such a grant stands in place of one that the owner counts on.
 */
export class LateGrants {
  readonly #attempts = new Map<string, Attempts>();

  /** An attempt is sent. Returns a function to call when its caller has the answer, or has given up. */
  begin(owned: Owned): () => void {
    const ids = idsOf(owned);
    for (const id of ids) {
      const attempts = this.#attempts.get(id);
      if (attempts === undefined) this.#attempts.set(id, { awaited: 1, verdicts: [] });
      else attempts.awaited++;
    }
    return () => {
      for (const id of ids) this.#end(id);
    };
  }

  /** Calls `verdict` with the place of each key, once no caller waits for an attempt of that owner at it. */
  decide(owned: Owned, verdict: (place: number) => void): void {
    idsOf(owned).forEach((id, place) => {
      const attempts = this.#attempts.get(id);
      if (attempts === undefined) verdict(place);
      else attempts.verdicts.push(() => verdict(place));
    });
  }

  #end(id: string): void {
    const attempts = this.#attempts.get(id)!;
    if (--attempts.awaited > 0) return;
    this.#attempts.delete(id);
    for (const verdict of attempts.verdicts) verdict();
  }
}

function idsOf({ names, owner }: Owned): string[] {
  return names.map((name) => `${owner.length}:${owner}${name}`);
}
