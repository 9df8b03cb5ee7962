import type { WebLockState } from '../engine/contract/web-locks.js';
import type { LockInfo } from './types.js';

/** What the engine knows of a request, as the standard shows it. */
export function infoOf({ name, mode, threadId }: WebLockState): LockInfo {
  return { name, mode: mode.name, clientId: `node-${process.pid}-${threadId}` };
}
