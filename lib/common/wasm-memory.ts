import { types } from 'node:util';

/** `WebAssembly.Memory`, which TypeScript declares only in the DOM's types. */
export interface WasmMemory {
  readonly buffer: SharedArrayBuffer;
}

/**
 * A 32-bit `Atomics.compareExchange` at a byte address of the memory. Returns the previous value. Throws for an address
 * outside the memory.
 */
export type CompareExchange = (address: number, expected: number, replacement: number) => number;

interface Wasm {
  Memory: {
    new (limits: { initial: number; maximum: number; shared: true }): WasmMemory;
    readonly prototype: WasmMemory;
  };
  Module: new (bytes: Uint8Array) => object;
  Instance: new (
    module: object,
    imports: { our: { memory: WasmMemory } },
  ) => { readonly exports: { compareExchange: CompareExchange } };
}

/** V8's WebAssembly. Undefined with `--jitless`. */
const wasm = (globalThis as { WebAssembly?: Wasm }).WebAssembly;

/** The page size of WebAssembly memory, in bytes. */
const PAGE = 65_536;

const ascii = (text: string): number[] => [...Buffer.from(text)];
const sized = (bytes: number[]): number[] => [bytes.length, ...bytes];

/**
 * A module in WebAssembly's binary format, with the threads proposal. Numbers are in LEB128; all except the last take
 * one byte.
 *
 *     (import "our" "memory" (memory 1 4096 shared))
 *     (func (export "compareExchange") (param i32 i32 i32) (result i32)
 *       (i32.atomic.rmw.cmpxchg (local.get 0) (local.get 1) (local.get 2)))
 */
// prettier-ignore
const MODULE = Uint8Array.from([
  ...ascii('\0asm'), 1, 0, 0, 0,
  1, ...sized([1, 0x60, 3, 0x7f, 0x7f, 0x7f, 1, 0x7f]), // the function's type
  2, ...sized([1, ...sized(ascii('our')), ...sized(ascii('memory')), 2, 3, 1, 0x80, 0x20]), // the memory it needs
  3, ...sized([1, 0]), // the function
  7, ...sized([1, ...sized(ascii('compareExchange')), 0, 0]), // its export
  10, ...sized([1, ...sized([0, 0x20, 0, 0x20, 1, 0x20, 2, 0xfe, 0x48, 2, 0, 0x0b])]), // its code
]);

let compiled: object | undefined;

/**
 * Creates shared memory of the fixed size `bytes`, a multiple of 64 KiB. Returns undefined if the memory
 * cannot be created.
 */
export function createWasmMemory(bytes: number): WasmMemory | undefined {
  try {
    const pages = bytes / PAGE;
    return wasm && new wasm.Memory({ initial: pages, maximum: pages, shared: true });
  } catch {
    // V8 reserves gigabytes of address space for each memory. The process may not be allowed to do so.
    return undefined;
  }
}

/** The buffer of a memory that `createWasmMemory` created in any thread. Undefined for any other value. */
export function bufferOfWasmMemory(memory: unknown): SharedArrayBuffer | undefined {
  // When a process creates its first lock, `memory` is undefined. This check costs less than an exception
  // would.
  if (typeof memory !== 'object') return undefined;
  try {
    const buffer: unknown = wasm && Reflect.get(wasm.Memory.prototype, 'buffer', memory);
    return types.isSharedArrayBuffer(buffer) ? buffer : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the function for a memory. Undefined if WebAssembly is unavailable. */
export function compareExchangeIn(memory: WasmMemory): CompareExchange | undefined {
  if (!wasm) return undefined;
  try {
    compiled ??= new wasm.Module(MODULE);
    return new wasm.Instance(compiled, { our: { memory } }).exports.compareExchange;
  } catch {
    return undefined;
  }
}
