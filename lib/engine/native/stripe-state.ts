import { threadId as currentThread } from 'node:worker_threads';
import type { StripeState } from '../../common/types.js';
import {
  EXCLUSIVE_MODE,
  hasPermits,
  modeCoded,
  modeOfWord,
  PERMIT_MODE,
  type Mode,
} from '../contract/mode.js';
import { parseNote } from '../contract/note.js';
import type { AsyncWaiter } from '../contract/engine.js';
import type { Addon } from './addon.js';

export type AddonState = ReturnType<Addon['inspect']>[number];
type Waiting = StripeState['waiters'][number];

/**
 * Converts the state of a stripe, as the addon returns it, to the form of `inspect()`. `limit`: the limit of
 * the table. `here`: a function that returns the acquisitions that wait for a stripe in this thread's
 * JavaScript.
 */
export function toStripeState(
  state: AddonState,
  limit: number,
  here: (stripe: number) => readonly LocalWait[],
): StripeState {
  const { stripe, word, holders, traced } = state;
  return {
    stripe,
    mode: modeOfWord(word, limit)?.name,
    holders: hasPermits(limit) ? permitsOf(state) : holders.flatMap((threadId) => holdsOf(threadId, traced)),
    waiters: withLocals(state, limit, here(stripe)),
  };
}

function holdsOf(threadId: number, traced: AddonState['traced']): StripeState['holders'] {
  const notes = traced.filter((note) => note.threadId === threadId);
  if (notes.length === 0) return [{ threadId }];
  return notes.map(({ heldFor, note }) => ({ threadId, heldFor, ...parseNote(note) }));
}

/** Returns one entry for each permit in use. For each thread, the traced permits come first. */
function permitsOf({ holders, traced }: AddonState): StripeState['holders'] {
  const left = [...traced];
  return holders.map((threadId) => {
    const at = left.findIndex((note) => note.threadId === threadId);
    if (at < 0) return { threadId };
    const [{ heldFor, note }] = left.splice(at, 1) as [AddonState['traced'][number]];
    return { threadId, heldFor, ...parseNote(note) };
  });
}

/** An acquisition that waits in this thread's JavaScript. */
export interface LocalWait {
  readonly waiter: AsyncWaiter;
  readonly waitingFor: number;
}

/**
 * Returns all waiters: the waiters in the addon, and the waiters in the JavaScript of their threads. A
 * thread's waiters in JavaScript follow its first async waiter in the addon. If the thread has no async
 * waiter in the addon, its waiters in JavaScript come first.
 */
function withLocals({ waiters, locals }: AddonState, limit: number, here: readonly LocalWait[]): Waiting[] {
  const modeIn = hasPermits(limit) ? (): Mode => PERMIT_MODE : modeCoded;
  const all = waiters.map(({ threadId, async, mode, waitingFor, note }): Waiting => ({
    threadId,
    kind: async ? 'async' : 'sync',
    mode: modeIn(mode).name,
    waitingFor,
    ...keysIn(note),
  }));
  for (const { threadId, count } of locals) {
    const common = { threadId, kind: 'async', mode: EXCLUSIVE_MODE.name } as const;
    // Other threads publish only the number of their local waiters.
    const own =
      threadId === currentThread
        ? here.map(({ waiter, waitingFor }) => ({ ...common, waitingFor, ...keysIn(waiter.note) }))
        : Array.from({ length: count }, () => ({ ...common, waitingFor: 0 }));
    all.splice(
      all.findIndex((other) => other.threadId === threadId && other.kind === 'async') + 1,
      0,
      ...own,
    );
  }
  return all;
}

function keysIn(note: string | undefined): Pick<Waiting, 'keys'> | undefined {
  return note === undefined || note === '' ? undefined : { keys: parseNote(note).keys };
}
