import fs from 'node:fs';
import { promisify } from 'node:util';
import { pause as asyncPause } from '../common/timers.js';

/*
 * A sequence of file operations is written once, as a generator that yields each call of `node:fs`. `runSync`
 * makes the calls in this thread. `run` makes them in libuv's thread pool.
 */

interface Call {
  block(): unknown;
  start(): Promise<unknown>;
}

/** A sequence of file operations that ends with a result. */
export type Steps<R> = Generator<Call, R, unknown>;

/** Creates an operation from its two forms: `block` blocks the thread, and `start` returns a promise. */
export function operation<A extends unknown[], R>(
  block: (...args: A) => R,
  start: (...args: A) => Promise<unknown>,
): (...args: A) => Steps<R> {
  return function* (...args) {
    return (yield { block: () => block(...args), start: () => start(...args) }) as R;
  };
}

/**
 * The operations use file descriptors and not the objects of `node:fs/promises`, because
 * both forms accept descriptors.
 */
export const access = operation<[string, number], unknown>(fs.accessSync, promisify(fs.access));
export const close = operation<[number], unknown>(fs.closeSync, promisify(fs.close));
export const fchmod = operation<[number, number], unknown>(fs.fchmodSync, promisify(fs.fchmod));
export const fchown = operation<[number, number, number], unknown>(fs.fchownSync, promisify(fs.fchown));
export const fstat = operation<[number], fs.Stats>(fs.fstatSync, promisify<number, fs.Stats>(fs.fstat));
export const fsync = operation<[number], unknown>(fs.fsyncSync, promisify(fs.fsync));
export const open = operation<[string, string | number, number?], number>(
  fs.openSync,
  promisify<string, string | number, number | undefined, number>(fs.open),
);
export const readFile = operation<[number], Buffer>(
  (file) => fs.readFileSync(file),
  promisify<number, Buffer>(fs.readFile),
);
export const readlink = operation<[string], string>(
  (link) => fs.readlinkSync(link),
  promisify<string, string>(fs.readlink),
);
export const realpath = operation<[string], string>(
  (link) => fs.realpathSync(link),
  promisify<string, string>(fs.realpath),
);
export const rename = operation<[string, string], unknown>(fs.renameSync, promisify(fs.rename));
export const stat = operation<[string], fs.Stats>(fs.statSync, promisify<string, fs.Stats>(fs.stat));
export const unlink = operation<[string], unknown>(fs.unlinkSync, promisify(fs.unlink));
export const writeFile = operation<[number, Uint8Array], unknown>(
  fs.writeFileSync,
  promisify<number, Uint8Array>(fs.writeFile),
);
export const pause = operation<[number], unknown>(blockFor, asyncPause);

function blockFor(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

/** Makes the calls in this thread, which blocks until they are done. */
export function runSync<R>(steps: Steps<R>): R {
  let step = steps.next();
  while (step.done !== true) {
    let result: unknown;
    try {
      result = step.value.block();
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(result);
  }
  return step.value;
}

/** Makes the calls in libuv's thread pool. */
export async function run<R>(steps: Steps<R>): Promise<R> {
  let step = steps.next();
  while (step.done !== true) {
    let result: unknown;
    try {
      result = await step.value.start();
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(result);
  }
  return step.value;
}
