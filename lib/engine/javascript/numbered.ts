import { HostFinalizationRegistry } from '../../common/host.js';

/**
 * Objects to which the handles of this thread refer by number. The references are weak, so an object that is
 * no longer used can be garbage-collected.
 */
export class Numbered<T extends object> {
  readonly id = randomId();
  /** The highest number that was assigned to an object. */
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

/**
 * Returns an id of two random integers. Because of this id, a handle of another thread or process is not
 * mistaken for a handle of this thread.
 */
export function randomId(): readonly [number, number] {
  const [low, high] = crypto.getRandomValues(new Int32Array(2));
  return [low!, high!];
}
