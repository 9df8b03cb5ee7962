import { threadId as currentThread } from 'node:worker_threads';
import type { StripeState } from '../../common/types.js';
import { EXCLUSIVE_MODE, modeCoded, modeOfWord } from '../contract/mode.js';
import { parseNote } from '../contract/note.js';
import type { AsyncWaiter } from '../contract/engine.js';
import type { Addon } from './addon.js';

type AddonState = ReturnType<Addon['inspect']>[number];
type Waiting = StripeState['waiters'][number];

/** Converts what the addon says about a stripe into what `inspect()` shows. `here`: what waits in this thread's JavaScript. */
export function toStripeState(
  state: AddonState,
  here: (stripe: number) => readonly LocalWait[],
): StripeState {
  const { stripe, word, holders, traced } = state;
  return {
    stripe,
    mode: modeOfWord(word)?.name,
    holders: holders.flatMap((threadId): StripeState['holders'] => {
      const notes = traced.filter((note) => note.threadId === threadId);
      if (notes.length === 0) return [{ threadId }];
      return notes.map(({ heldFor, note }) => ({ threadId, heldFor, ...parseNote(note) }));
    }),
    waiters: withLocals(state, here(stripe)),
  };
}

/** An acquisition that waits in this thread's JavaScript. */
export interface LocalWait {
  readonly waiter: AsyncWaiter;
  readonly waitingFor: number;
}

/** A thread's own queue comes after its stand-in, or first, if the thread holds the stripe. */
function withLocals({ waiters, locals }: AddonState, here: readonly LocalWait[]): Waiting[] {
  const all = waiters.map(({ threadId, async, mode, waitingFor, note }): Waiting => ({
    threadId,
    kind: async ? 'async' : 'sync',
    mode: modeCoded(mode).name,
    waitingFor,
    ...keysIn(note),
  }));
  for (const { threadId, count } of locals) {
    const common = { threadId, kind: 'async', mode: EXCLUSIVE_MODE.name } as const;
    // Only its own thread knows more of it.
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
