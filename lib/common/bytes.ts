import { types } from 'node:util';

/** Bytes of any realm; false for what only has the prototype of some. */
export const isBytes: (value: unknown) => value is Uint8Array = types.isUint8Array;

const typedArray = Object.getPrototypeOf(Uint8Array.prototype) as object;
const { get: getLength } = Object.getOwnPropertyDescriptor(typedArray, 'length') as {
  get: (this: Uint8Array) => number;
};

/**
 * How many there are, whatever the array says of itself: one of a class of its own may have another `length`. 0 where its
 * memory is gone. What has an index below it is there.
 */
export function lengthOfBytes(bytes: Uint8Array): number {
  return getLength.call(bytes);
}

/**
 * What the bytes are now, for when they may have changed, or their memory be gone. Runs no code of the array's, and fails
 * only where memory does.
 */
export function copyOfBytes(bytes: Uint8Array): Uint8Array {
  return lengthOfBytes(bytes) === 0 ? new Uint8Array() : new Uint8Array(bytes);
}
