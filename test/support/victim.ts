import { once } from 'node:events';
import type { Worker } from 'node:worker_threads';
import type { LockKey, LockMode, StripedLock } from 'stripelock';
import { startThread } from './threads.js';

/** The ways in which a thread can end. Except for `terminate`, it ends itself. */
export const ENDS = ['return', 'throw', 'reject', 'exit', 'terminate'] as const;
export type End = (typeof ENDS)[number];
export type OwnEnd = Exclude<End, 'terminate'>;

export interface Want {
  readonly keys: LockKey | readonly LockKey[];
  readonly mode?: LockMode;
}

export interface VictimPlan {
  readonly holds?: readonly (Want & { readonly how?: 'sync' | 'async' })[];
  /** Async acquisitions that it starts and that are pending at its end. */
  readonly pending?: readonly Want[];
  /** The acquisition for which it then blocks. */
  readonly parked?: Want;
  /** It blocks its event loop until the cell changes, and ends in the same turn. */
  readonly numb?: { readonly cell: SharedArrayBuffer; readonly end: OwnEnd };
}

/** A thread that ends without releasing anything. */
export class Victim {
  private constructor(
    readonly worker: Worker,
    readonly threadId: number,
  ) {
    // A thread that throws on purpose does not fail the test.
    worker.on('error', () => undefined);
  }

  /** Resolves when it holds `holds` and waits for `pending`; it is about to block for `parked`. */
  static async start(lock: StripedLock, plan: VictimPlan, script = 'victim.mjs'): Promise<Victim> {
    const worker = startThread(script, { handle: lock.handle, ...plan });
    const victim = new Victim(worker, worker.threadId);
    await once(worker, 'message');
    return victim;
  }

  /** Ends the thread. Resolves to the time of its exit, on performance.now()'s clock. */
  async end(how: End): Promise<number> {
    const exit = this.exit();
    if (how === 'terminate') void this.worker.terminate();
    else this.worker.postMessage(how);
    return exit;
  }

  async exit(): Promise<number> {
    // once() would reject with the error of the thread.
    return new Promise((resolve) => this.worker.once('exit', () => resolve(performance.now())));
  }
}
