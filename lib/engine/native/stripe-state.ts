import type { StripeState } from '../../common/types.js';
import { modeCoded, modeOfWord } from '../contract/mode.js';
import { parseNote } from '../contract/note.js';
import type { Addon } from './addon.js';

/** Converts what the addon says about a stripe into what `inspect()` shows. */
export function toStripeState({
  stripe,
  word,
  holders,
  traced,
  waiters,
}: ReturnType<Addon['inspect']>[number]): StripeState {
  return {
    stripe,
    mode: modeOfWord(word)?.name,
    holders: holders.flatMap((threadId): StripeState['holders'] => {
      const notes = traced.filter((note) => note.threadId === threadId);
      if (notes.length === 0) return [{ threadId }];
      return notes.map(({ heldFor, note }) => ({ threadId, heldFor, ...parseNote(note) }));
    }),
    waiters: waiters.map(({ threadId, async, mode, waitingFor, note }) => ({
      threadId,
      kind: async ? 'async' : 'sync',
      mode: modeCoded(mode).name,
      waitingFor,
      ...(note === '' ? undefined : { keys: parseNote(note).keys }),
    })),
  };
}
