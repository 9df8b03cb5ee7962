import { types } from 'node:util';

/** Whether a value is a Uint8Array of any realm. False for an object that merely has its prototype. */
export const isBytes: (value: unknown) => value is Uint8Array = types.isUint8Array;

const typedArray: unknown = Object.getPrototypeOf(Uint8Array.prototype);
const { at } = typedArray as { at: (this: Uint8Array, index: number) => number | undefined };
const { get: getLength } = Object.getOwnPropertyDescriptor(typedArray, 'length') as {
  get: (this: Uint8Array) => number;
};

/**
 * The number of bytes; 0 if the memory was detached. The number is not read from the property `length`, which
 * a subclass may override. Every index below the result can be read.
 */
export function lengthOfBytes(bytes: Uint8Array): number {
  return getLength.call(bytes);
}

/**
 * False if the memory was detached, or if it shrank so that the array is out of bounds. Such an array has a
 * length of 0.
 */
export function hasMemory(bytes: Uint8Array): boolean {
  if (lengthOfBytes(bytes) > 0) return true;
  try {
    at.call(bytes, 0);
    return true;
  } catch (error) {
    // A stack overflow does not prove that the memory is gone.
    if (error instanceof RangeError) throw error;
    return false;
  }
}

/**
 * Copies the bytes. Later changes and a detachment of the memory do not affect the copy. Runs no code of the
 * array's class, and fails only if memory runs out.
 */
export function copyOfBytes(bytes: Uint8Array): Uint8Array {
  return lengthOfBytes(bytes) === 0 ? new Uint8Array() : new Uint8Array(bytes);
}
