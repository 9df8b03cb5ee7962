import { clearTimeout, setTimeout } from '../common/host.js';
import { LONGEST_DELAY } from '../common/alarm.js';

/** Those who wait in one store for one key. */
export class Listeners {
  /** In the order of their turns. */
  readonly all = new Set<() => void>();
  #timer: NodeJS.Timeout | undefined;

  /** The one that is woken goes to the end, as it may not ask, or may be refused. */
  wake(): void {
    const [first] = this.all;
    if (!first) return;
    this.all.delete(first);
    this.all.add(first);
    first();
  }

  wakeIn(milliseconds: number): void {
    clearTimeout(this.#timer);
    // A time that no timer reaches does not matter here: polling comes first.
    this.#timer = setTimeout(() => this.wake(), Math.min(milliseconds, LONGEST_DELAY)).unref();
  }

  close(): void {
    clearTimeout(this.#timer);
    this.all.clear();
  }
}
