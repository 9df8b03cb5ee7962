import workerThreads from 'node:worker_threads';
import { ENGINE_PROTOCOL } from '../contract/engine.js';
import type { Addon } from './addon.js';

/**
 * What one evaluation of this package leaves for the other evaluations in its thread. Equal protocols mean engines of
 * one kind.
 */
interface Running {
  readonly protocol: number;
  readonly engine: unknown;
}

/** The exports of a module of Node are the same object in all realms of a thread; `globalThis` is not. */
const home = workerThreads as { [name: symbol]: Running | undefined };

/** Another version of this package has started the addon in this thread. */
export class OtherVersion extends Error {}

/**
 * The engine that this thread runs on a copy of the addon: the one that is already running, or a new one from `make`.
 * Throws {@link OtherVersion}.
 *
 * A thread joins the addon once, but may evaluate this package several times, as in the registry of a test runner, or
 * if the package is installed twice. The evaluations share one engine, so that a thread is one holder to others and to
 * itself, and one call tells all of its waiters. They do not share classes, so nothing may depend on the class that
 * made an object. `addon` must be the caller's own copy of the exports: its `start` is replaced.
 */
export function runningEngine<Engine>(addon: Addon, make: (addon: Addon) => Engine): Engine {
  const [low, high] = addon.registryId();
  const name = Symbol.for(`stripelock.native-engine ${low} ${high}`);
  const running = home[name];
  if (running !== undefined) {
    if (running.protocol === ENGINE_PROTOCOL) return running.engine as Engine;
    throw new OtherVersion();
  }
  addon.start = startOnce(addon.start.bind(addon));
  const engine = make(addon);
  Object.defineProperty(home, name, { value: Object.freeze({ protocol: ENGINE_PROTOCOL, engine }) });
  return engine;
}

let slot: number | undefined;
let ready: () => void;

/**
 * The addon's own `start`, but it can be called again. The stack may overflow after the first call, while the engine is
 * made; the next attempt then continues with what was started.
 */
function startOnce(startAddon: Addon['start']): Addon['start'] {
  return (threadId, onReady) => {
    ready = onReady;
    slot ??= start(startAddon, threadId);
    return slot;
  };
}

function start(startAddon: Addon['start'], threadId: number): number {
  try {
    return startAddon(threadId, () => ready());
  } catch (error) {
    // The addon refuses to start twice. So a version that does not share its engine has started it.
    if ((error as { code?: unknown }).code === 'ERR_INVALID_ARG_TYPE') throw new OtherVersion();
    throw error;
  }
}
