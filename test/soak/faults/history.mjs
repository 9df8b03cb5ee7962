import { appendFileSync, existsSync, readFileSync } from 'node:fs';

/**
 * One thing that a client did. By `op`, an entry has
 *
 *     acquire   key, token, call, return: a grant, and the times of its call and its return. abandoned: of a lease of one key.
 *               ttl: milliseconds. shared: whether other readers may hold the key at the same time
 *     held      key, token, at: asked after the time `at`, the lease was still held
 *     write     key, token, value: the fenced resource has said that it accepted the value
 *     leave     key, token, at: the client is about to release it
 *     release   key, token, call, return. freed: what the release resolved to, or the code of its error
 *     blocked   key, token, at: the event loop was blocked until then. for: milliseconds; still: whether it was held after
 *     refused, failed, crashed   more, for people and for counting
 *
 * @typedef {object} Entry
 * @property {'acquire' | 'held' | 'write' | 'leave' | 'release' | 'blocked' | 'refused' | 'failed' | 'crashed'} op
 * @property {string} client
 * @property {string} key
 * @property {bigint} token
 * @property {number} call
 * @property {number} return
 * @property {number} at
 * @property {number} value
 * @property {number} for
 * @property {boolean} still
 * @property {boolean | undefined} abandoned
 * @property {number} ttl
 * @property {boolean} shared
 * @property {unknown} freed
 * @property {string} error
 */

/** The steps of one client, a line of JSON each, written at once so that a kill loses nothing. */
export class History {
  /**
   * @param {string} file
   * @param {string} client
   */
  constructor(file, client) {
    this.file = file;
    this.client = client;
  }

  /** @param {{ op: Entry['op'] } & Record<string, unknown>} entry */
  add(entry) {
    appendFileSync(this.file, `${lineOf({ client: this.client, ...entry })}\n`);
  }
}

/** @param {object} entry */
export const lineOf = (entry) =>
  JSON.stringify(entry, (_, value) => (typeof value === 'bigint' ? String(value) : value));

/**
 * The events of several clients, in the order of each. A line that a kill has cut is left out.
 *
 * @param {readonly string[]} files
 * @returns {Entry[]}
 */
export function readHistories(files) {
  return files
    .filter((file) => existsSync(file))
    .flatMap((file) =>
      readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => line.endsWith('}'))
        .map((line) => {
          const entry = JSON.parse(line);
          return entry.token === undefined ? entry : { ...entry, token: BigInt(entry.token) };
        }),
    );
}
