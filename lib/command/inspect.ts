import { statSync } from 'node:fs';
import type { LockKey } from '../common/types.js';
import { inspectFile, type ProcessHolder } from '../process/process-lock.js';
import type { InspectRequest } from './arguments.js';
import { aligned } from './table.js';
import { printable, timeText } from './words.js';

/** Returns the holders and waiters of a lock file, as a table or as JSON. */
export function inspect({ path, access, json }: InspectRequest): string {
  // The size is read first, because `inspectFile` would create a missing file, and turn an empty file into a
  // lock file.
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size === 0) throw new Error(`there is no lock file ${path}`);
  const keys = inspectFile(path, access);
  if (json)
    return JSON.stringify(
      keys.map((each) => ({ ...each, key: plainKey(each.key) })),
      undefined,
      2,
    );
  const now = Date.now();
  const rows = keys.flatMap(({ key, mode, holders, waiters }) => {
    const row = (state: string, { pid, threadId, since, title }: ProcessHolder): string[] => [
      keyText(key),
      state,
      mode,
      String(pid),
      String(threadId),
      timeText(since, now),
      printable(title),
    ];
    return [...holders.map((one) => row('holds', one)), ...waiters.map((one) => row('waits', one))];
  });
  if (rows.length === 0) return `no process holds or waits for a key of ${path}`;
  return aligned([['KEY', 'STATE', 'MODE', 'PID', 'THREAD', 'SINCE', 'COMMAND'], ...rows]);
}

/** Converts a key to a value for JSON, which cannot represent bytes. An unknown key becomes null. */
function plainKey(key: LockKey | undefined): unknown {
  return key instanceof Uint8Array ? { base64: Buffer.from(key).toString('base64') } : (key ?? null);
}

function keyText(key: LockKey | undefined): string {
  if (key === undefined) return '(unknown)';
  if (key === '') return '(empty key)';
  return key instanceof Uint8Array ? `0x${Buffer.from(key).toString('hex')}` : printable(String(key));
}
