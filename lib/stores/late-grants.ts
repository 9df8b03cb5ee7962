import type { Owned } from './server-store.js';

/** The attempts of one owner to acquire one key. */
interface Attempts {
  /** The number of attempts whose caller still waits for the answer. */
  awaited: number;
  /** Called when `awaited` drops to 0. */
  readonly verdicts: (() => void)[];
}

/**
 * Decides what happens to grants that arrive after their attempt timed out. Such a grant may have replaced one that the
 * owner relies on. This is known only once every other pending attempt of that owner for that key is answered.
 */
export class LateGrants {
  readonly #attempts = new Map<string, Attempts>();

  /** Call when an attempt is sent. Call the returned function once its caller has an answer or has timed out. */
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

  /** Calls `verdict` with the index of each key, once no attempt of that owner for that key is pending. */
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
