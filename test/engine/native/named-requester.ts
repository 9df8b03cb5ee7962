import type { NamedRequester } from '../../../unbundled/engine/contract/named-locks.js';

/** Writes down what it is told. */
export class Requester implements NamedRequester {
  ticket = -1;
  readonly told: string[] = [];
  /** What to do when it is granted. */
  readonly #onGranted: () => void;

  constructor(onGranted: () => void = () => undefined) {
    this.#onGranted = onGranted;
  }

  granted(): void {
    this.told.push('granted');
    this.#onGranted();
  }

  stolen(): void {
    this.told.push('stolen');
  }
}
