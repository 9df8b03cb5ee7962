import { copyOfBytes, isBytes } from '../../common/bytes.js';
import type { LockKey } from '../../common/types.js';

/** What a traced acquisition says about itself. */
export interface TraceNote {
  readonly keys: LockKey[];
  /** Where in the user's code it was asked for, like "at transfer (file:///app/bank.js:12:20)". */
  readonly acquiredAt: string;
}

/** A text, since that is how a note passes through the addon from one thread to another. */
export function formatNote(keys: readonly LockKey[], acquiredAt: string): string {
  return JSON.stringify({ keys: keys.map(encodeKey), acquiredAt });
}

export function parseNote(note: string): TraceNote {
  const { keys, acquiredAt } = JSON.parse(note) as { keys: unknown[]; acquiredAt: string };
  return { keys: keys.map(decodeKey), acquiredAt };
}

function encodeKey(key: LockKey): unknown {
  return isBytes(key) ? { bytes: Buffer.from(copyOfBytes(key)).toString('base64') } : key;
}

function decodeKey(key: unknown): LockKey {
  if (typeof key !== 'object') return key as LockKey;
  return new Uint8Array(Buffer.from((key as { bytes: string }).bytes, 'base64'));
}
