import { appendFileSync, existsSync, readFileSync } from 'node:fs';

/**
 * What one client did, a line of JSON each, written at once so that a kill loses nothing:
 *
 *     {op: 'acquire', key, token, call, return}    a grant; `call` and `return` are times
 *     {op: 'held', key, token, at}                 asked after the time `at`, the lease was still held
 *     {op: 'write', key, token, value}             the fenced resource has told that it accepted the value
 *     {op: 'release', key, token, call, return}
 *     {op: 'refused' | 'failed' | 'crashed', …}    for the eye, and for counting
 */
export class History {
  constructor(file, client) {
    this.file = file;
    this.client = client;
  }

  add(entry) {
    const text = JSON.stringify({ client: this.client, ...entry }, (_, value) =>
      typeof value === 'bigint' ? String(value) : value,
    );
    appendFileSync(this.file, `${text}\n`);
  }
}

/** Of several clients, in the order of each. A line that a kill has cut is left out. */
export function readHistories(files) {
  return files.filter(existsSync).flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line.endsWith('}'))
      .map((line) => {
        const entry = JSON.parse(line);
        return entry.token === undefined ? entry : { ...entry, token: BigInt(entry.token) };
      }),
  );
}
