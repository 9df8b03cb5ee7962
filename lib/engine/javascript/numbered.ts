import { HostFinalizationRegistry } from '../../common/host.js';

/** What handles of this thread name by a number, for as long as somebody uses it. */
export class Numbered<T extends object> {
  readonly id = randomId();
  /** The last number that was given out. */
  last = 0;
  readonly #all = new Map<number, WeakRef<T>>();
  readonly #gone = new HostFinalizationRegistry<number>((number) => {
    if (this.get(number) === undefined) this.#all.delete(number);
  });

  get(number: number): T | undefined {
    return this.#all.get(number)?.deref();
  }

  set<U extends T>(number: number, value: U): U {
    this.#all.set(number, new WeakRef(value));
    this.#gone.register(value, number);
    return value;
  }
}

/** Random, so that no other thread or process takes a handle of this thread for its own. */
export function randomId(): readonly [number, number] {
  const [low, high] = crypto.getRandomValues(new Int32Array(2));
  return [low!, high!];
}
