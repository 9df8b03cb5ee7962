/** The initial room: more than an Int32Array can have within V8's heap. */
const SMALL = 64;

/**
 * Stripes as the addon reads them, until the next call: one as it is, several at the start of an array that is used again
 * and again. For a new small array, V8 would have to move it out of its heap for the addon, which costs more than the
 * rest of the call.
 */
export class StripeList {
  #list = new Int32Array(SMALL);

  of(stripes: readonly number[]): number | Int32Array {
    if (stripes.length === 1) return stripes[0]!;
    if (stripes.length > this.#list.length) this.#list = new Int32Array(stripes.length);
    this.#list.set(stripes);
    return this.#list;
  }
}
