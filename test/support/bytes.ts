/** TypeScript's library does not have it yet. */
const Resizable = ArrayBuffer as unknown as new (
  bytes: number,
  options: { maxByteLength: number },
) => ArrayBuffer & { resize(bytes: number): void };

/** A buffer of 16 bytes, which `make` has a look at, that is then resized. */
export function resized(bytes: number, make: (buffer: ArrayBuffer) => void = () => undefined): ArrayBuffer {
  const buffer = new Resizable(16, { maxByteLength: 32 });
  make(buffer);
  buffer.resize(bytes);
  return buffer;
}

/** Arrays whose bytes are gone: of detached memory, and of memory that has become too small for them. */
export function withoutMemory(): Uint8Array[] {
  const arrays = [Uint8Array.of(1, 2, 3), new Uint8Array()];
  for (const { buffer } of arrays) structuredClone(buffer, { transfer: [buffer] });
  resized(2, (buffer) => {
    // One has all of the memory from there on; the other loses the end of its part.
    arrays.push(new Uint8Array(buffer, 4), new Uint8Array(buffer, 1, 8));
  });
  return arrays;
}
