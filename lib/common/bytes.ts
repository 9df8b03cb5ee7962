import { types } from 'node:util';

/** Whether a value is a Uint8Array, of any realm. False for an object that only has its prototype. */
export const isBytes: (value: unknown) => value is Uint8Array = types.isUint8Array;

const typedArray: unknown = Object.getPrototypeOf(Uint8Array.prototype);
const { at } = typedArray as { at: (this: Uint8Array, index: number) => number | undefined };
const { get: getLength } = Object.getOwnPropertyDescriptor(typedArray, 'length') as {
  get: (this: Uint8Array) => number;
};

/**
 * The number of bytes. Does not use `length`, which a subclass may override. 0 if the memory was detached. Every index
 * below it can be read.
 */
export function lengthOfBytes(bytes: Uint8Array): number {
  return getLength.call(bytes);
}

/** False if the memory was detached, or shrank so that the array is out of its bounds: then it looks like an empty one. */
export function hasMemory(bytes: Uint8Array): boolean {
  if (lengthOfBytes(bytes) > 0) return true;
  try {
    at.call(bytes, 0);
    return true;
  } catch (error) {
    // A stack overflow, which says nothing of the memory.
    if (error instanceof RangeError) throw error;
    return false;
  }
}

/**
 * A copy of the bytes, which stays the same when they change or their memory is detached. Runs no code of the array's
 * class, and fails only if there is no memory for it.
 */
export function copyOfBytes(bytes: Uint8Array): Uint8Array {
  return lengthOfBytes(bytes) === 0 ? new Uint8Array() : new Uint8Array(bytes);
}
