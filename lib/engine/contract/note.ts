import { copyOfBytes, isBytes } from '../../common/bytes.js';
import type { LockKey } from '../../common/types.js';

/** Information about a traced acquisition. */
export interface TraceNote {
  readonly keys: LockKey[];
  /** The call site in the user's code, such as "at transfer (file:///app/bank.js:12:20)". */
  readonly acquiredAt: string;
}

/** Encodes a note as a string, because the addon stores and returns notes as strings. */
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
