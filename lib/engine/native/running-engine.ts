import workerThreads from 'node:worker_threads';
import { ENGINE_PROTOCOL } from '../contract/engine.js';
import type { Addon } from './addon.js';
import type { NativeEngine } from './engine.js';

/** What one evaluation of this package leaves for the others of its thread. */
interface Running {
  readonly protocol: number;
  readonly engine: NativeEngine;
}

/** The exports of a module of Node are the same object in all realms of a thread, which `globalThis` is not. */
const home = workerThreads as { [name: symbol]: Running | undefined };

/** Another version of this package has started the addon in this thread. */
export class OtherVersion extends Error {}

/**
 * The engine that this thread runs on a copy of the addon: the one there is, or what `make` makes. A thread joins the
 * addon once, but may evaluate this package several times, as in the registry of a test runner, or where it is installed
 * twice. They share one engine, so that a thread is one holder to others and to itself, and one call tells all of its
 * waiters. Classes are not shared: nothing may depend on whose instance something is.
 */
export function runningEngine(addon: Addon, make: (addon: Addon) => NativeEngine): NativeEngine {
  const [low, high] = addon.registryId();
  const name = Symbol.for(`stripelock.native-engine ${low} ${high}`);
  const running = home[name];
  if (running !== undefined) {
    if (running.protocol === ENGINE_PROTOCOL) return running.engine;
    throw new OtherVersion();
  }
  const engine = make({ ...addon, start: startOnce(addon) });
  Object.defineProperty(home, name, { value: Object.freeze({ protocol: ENGINE_PROTOCOL, engine }) });
  return engine;
}

let slot: number | undefined;
let ready: () => void;

/**
 * As the addon's own, but may be called again: the stack may have overflowed after it was, in what makes the engine. Then
 * the next attempt goes on with it.
 */
function startOnce(addon: Addon): Addon['start'] {
  return (threadId, onReady) => {
    ready = onReady;
    slot ??= start(addon, threadId);
    return slot;
  };
}

function start(addon: Addon, threadId: number): number {
  try {
    return addon.start(threadId, () => ready());
  } catch (error) {
    // The addon refuses to start twice: this is the mark of versions that leave nothing for others.
    if ((error as { code?: unknown }).code === 'ERR_INVALID_ARG_TYPE') throw new OtherVersion();
    throw error;
  }
}
