import { queueMicrotask, setTimeout } from '../../common/host.js';
import type { Renewing } from './renew.js';

/** Milliseconds for which a renewal waits for others while earlier ones have no answer: little of the shortest lease. */
const COLLECTED_FOR = 20;

interface Waiting {
  readonly key: Renewing;
  readonly resolve: (renewed: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Renewals of single keys, of any owners, that go to the servers together. Those that are asked for in the same turn of the
 * event loop do. While earlier ones have no answer, the next are collected for a moment: the busier servers and machine are,
 * the fewer requests there are for each key.
 */
export class Renewals {
  readonly #most: number;
  readonly #renew: (keys: readonly Renewing[]) => Promise<readonly boolean[]>;
  #waiting: Waiting[] = [];
  #underWay = 0;
  #planned = false;

  /** `most`: keys of one request. */
  constructor(most: number, renew: (keys: readonly Renewing[]) => Promise<readonly boolean[]>) {
    this.#most = most;
    this.#renew = renew;
  }

  add(key: Renewing): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, resolve, reject });
      if (this.#planned) return;
      this.#planned = true;
      if (this.#underWay === 0) queueMicrotask(() => this.#send());
      else setTimeout(() => this.#send(), COLLECTED_FOR);
    });
  }

  #send(): void {
    this.#planned = false;
    let rest = this.#waiting;
    this.#waiting = [];
    while (rest.length > 0) {
      // One request cannot write a key twice.
      const batch = new Map<string, Waiting>();
      const later: Waiting[] = [];
      for (const one of rest) {
        const { name } = one.key;
        if (batch.size < this.#most && !batch.has(name)) batch.set(name, one);
        else later.push(one);
      }
      void this.#sendTogether([...batch.values()]);
      rest = later;
    }
  }

  async #sendTogether(batch: readonly Waiting[]): Promise<void> {
    this.#underWay++;
    try {
      const renewed = await this.#renew(batch.map(({ key }) => key));
      batch.forEach(({ resolve }, i) => resolve(renewed[i]!));
    } catch (error) {
      // What stands at one of the keys is not a lease. That is no failure of the others.
      const isOne = batch.length > 1 && (error as Error).cause instanceof TypeError;
      if (isOne) for (const one of batch) void this.#sendTogether([one]);
      else for (const { reject } of batch) reject(error);
    } finally {
      this.#underWay--;
    }
  }
}
