import workerThreads from 'node:worker_threads';
import { ENGINE_PROTOCOL } from '../engine.js';
import type { Addon } from './addon.js';
import type { NativeEngine } from './engine.js';

/** What one evaluation of this package leaves for the others of its thread. */
interface Running {
  readonly protocol: number;
  readonly engine: NativeEngine;
}

/** The exports of a module of Node are the same object in all realms of a thread, which `globalThis` is not. */
const home = workerThreads as { [name: symbol]: Running | undefined };

/** More frames than anything in the making of an engine is deep. */
const FRAMES = 64;

/** Another version of this package has started the addon in this thread. */
export class OtherVersion extends Error {}

/**
 * The engine that this thread runs on a copy of the addon: the one there is, or what `make` makes. A thread joins the
 * addon once, but may evaluate this package several times, as in the registry of a test runner, or where it is installed
 * twice. They share one engine, so that a thread is one holder to others and to itself, and one call tells all of its
 * waiters. Classes are not shared: nothing may depend on whose instance something is.
 */
export function runningEngine(addon: Addon, make: () => NativeEngine): NativeEngine {
  const [low, high] = addon.registryId();
  const name = Symbol.for(`stripelock.native-engine ${low} ${high}`);
  const running = home[name];
  if (running !== undefined) {
    if (running.protocol === ENGINE_PROTOCOL) return running.engine;
    throw new OtherVersion();
  }
  reserveStack(FRAMES);
  const engine = made(make);
  Object.defineProperty(home, name, { value: Object.freeze({ protocol: ENGINE_PROTOCOL, engine }) });
  return engine;
}

function made(make: () => NativeEngine): NativeEngine {
  try {
    return make();
  } catch (error) {
    // The addon refuses to start twice: this is the mark of versions that leave nothing for others.
    if ((error as { code?: unknown }).code === 'ERR_INVALID_ARG_TYPE') throw new OtherVersion();
    throw error;
  }
}

/** Throws a RangeError where the stack is about to overflow: once the addon has started, that would be too late. */
function reserveStack(frames: number): void {
  if (frames > 0) reserveStack(frames - 1);
}
