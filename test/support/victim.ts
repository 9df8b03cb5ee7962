import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import type { LockKey, LockMode, StripedLock } from 'stripelock';
import { startThread } from './threads.js';

/** The ways in which a thread can end; all but `terminate` are its own doing. */
export const ENDS = ['return', 'throw', 'reject', 'exit', 'terminate'] as const;
export type End = (typeof ENDS)[number];
export type OwnEnd = Exclude<End, 'terminate'>;

export interface Want {
  readonly keys: LockKey | readonly LockKey[];
  readonly mode?: LockMode;
}

export interface VictimPlan {
  readonly holds?: readonly (Want & { readonly how?: 'sync' | 'async' })[];
  /** Async acquisitions that it starts and never sees the end of. */
  readonly pending?: readonly Want[];
  /** What it then blocks for. */
  readonly parked?: Want;
  /** Its event loop stands still until the cell changes; then it ends by itself, in the same turn. */
  readonly numb?: { readonly cell: SharedArrayBuffer; readonly end: OwnEnd };
}

/** A thread that will end without giving back anything. */
export class Victim {
  private constructor(
    readonly worker: Worker,
    readonly threadId: number,
  ) {
    // One that is about to throw on purpose is no failure of the test.
    worker.on('error', () => undefined);
  }

  /** It holds what it is to hold, and waits for what it is to wait for, but for `parked`, when this resolves. */
  static async start(lock: StripedLock, plan: VictimPlan, script = 'victim.mjs'): Promise<Victim> {
    const worker = startThread(script, { handle: lock.handle, ...plan });
    const victim = new Victim(worker, worker.threadId);
    await once(worker, 'message');
    return victim;
  }

  /** Resolves to the time of its exit, on performance.now()'s clock. */
  async end(how: End): Promise<number> {
    const exit = this.exit();
    if (how === 'terminate') void this.worker.terminate();
    else this.worker.postMessage(how);
    return exit;
  }

  async exit(): Promise<number> {
    // once() would reject with the error that the thread ends by.
    return new Promise((resolve) => this.worker.once('exit', () => resolve(performance.now())));
  }
}
