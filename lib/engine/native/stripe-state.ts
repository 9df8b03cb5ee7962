import type { LockMode, StripeState } from '../../common/types.js';
import { HOLDER_MASK, SHARED } from '../contract/lock-word.js';
import { parseNote } from '../contract/note.js';
import type { Addon } from './addon.js';
import { MODE_SHARED } from './protocol.js';

/** Makes what `inspect()` shows of what the addon says about a stripe. */
export function toStripeState({
  stripe,
  word,
  holders,
  traced,
  waiters,
}: ReturnType<Addon['inspect']>[number]): StripeState {
  return {
    stripe,
    mode: modeOfHolders(word),
    holders: holders.flatMap((threadId): StripeState['holders'] => {
      const notes = traced.filter((note) => note.threadId === threadId);
      if (notes.length === 0) return [{ threadId }];
      return notes.map(({ heldFor, note }) => ({ threadId, heldFor, ...parseNote(note) }));
    }),
    waiters: waiters.map(({ threadId, async, mode, waitingFor, note }) => ({
      threadId,
      kind: async ? 'async' : 'sync',
      mode: mode === MODE_SHARED ? 'shared' : 'exclusive',
      waitingFor,
      ...(note === '' ? undefined : { keys: parseNote(note).keys }),
    })),
  };
}

function modeOfHolders(word: number): LockMode | undefined {
  if ((word & SHARED) !== 0) return 'shared';
  return (word & HOLDER_MASK) !== 0 ? 'exclusive' : undefined;
}
