// The agreed entries of an etcd cluster, from its write-ahead logs.

import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

/**
 * @typedef {object} LogEntry
 * @property {number} term In which a leader took it.
 * @property {bigint} proposer The last 16 bits of the id of the server that proposed it, whether or not it led.
 * @property {string | undefined} revoked The etcd lease that it revokes.
 * @property {{ key: string, lease: string }[]} puts Keys that it binds, unless a condition of it failed.
 */

/**
 * @typedef {object} Log
 * @property {LogEntry[]} entries All that are committed, in their order.
 * @property {Map<number, Set<bigint>>} votes For each term, whom the server voted for.
 */

// Types of a record, and the fields of what it contains, as etcd's protocol numbers them.
const ENTRY = 2;
const STATE = 3;
const RECORD = { type: 1, data: 3 };
const RAFT_ENTRY = { type: 1, term: 2, index: 3, data: 4 };
const HARD_STATE = { term: 1, vote: 2, commit: 3 };
const REQUEST = { put: 4, txn: 6, revoke: 9, header: 100 };
const PUT = { key: 1, lease: 3 };
const TXN = { success: 2 };
const OPERATION = { put: 2, txn: 4 };
/** Of entries: a request. Others change the members. */
const NORMAL = 0n;

/** @typedef {Map<number, (bigint | Buffer)[]>} Fields */

/**
 * @param {Buffer} bytes
 * @returns {Fields}
 */
function fieldsOf(bytes) {
  /** @type {Fields} */
  const fields = new Map();
  let at = 0;
  const number = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) throw new RangeError('a number is cut');
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(number());
    /** @type {bigint | Buffer} */
    let value;
    if (tag % 8 === 0) value = number();
    else if (tag % 8 === 2) {
      const length = Number(number());
      value = bytes.subarray(at, (at += length));
    } else throw new RangeError(`etcd's log has no fields of the type ${tag % 8}`);
    const field = Math.floor(tag / 8);
    const values = fields.get(field);
    if (values) values.push(value);
    else fields.set(field, [value]);
  }
  return fields;
}

const numberIn = (/** @type {Fields} */ fields, /** @type {number} */ field) =>
  /** @type {bigint} */ (fields.get(field)?.[0] ?? 0n);
const bytesIn = (/** @type {Fields} */ fields, /** @type {number} */ field) =>
  /** @type {Buffer[]} */ (fields.get(field) ?? []);
const messagesIn = (/** @type {Fields} */ fields, /** @type {number} */ field) =>
  bytesIn(fields, field).map(fieldsOf);

/** @param {Fields} put */
const bindingOf = (put) => ({
  key: bytesIn(put, PUT.key).join(''),
  lease: String(numberIn(put, PUT.lease)),
});

/**
 * @param {Fields} txn
 * @returns {LogEntry['puts']}
 */
function putsIn(txn) {
  return messagesIn(txn, TXN.success).flatMap((operation) => [
    ...messagesIn(operation, OPERATION.put).map(bindingOf),
    ...messagesIn(operation, OPERATION.txn).flatMap(putsIn),
  ]);
}

/**
 * @param {Fields} entry
 * @returns {LogEntry}
 */
function entryOf(entry) {
  const isRequest = numberIn(entry, RAFT_ENTRY.type) === NORMAL;
  const [data = Buffer.alloc(0)] = isRequest ? bytesIn(entry, RAFT_ENTRY.data) : [];
  const [header] = messagesIn(fieldsOf(data), REQUEST.header);
  // One without is of version 2 of the protocol, whose fields are others.
  const request = header ? fieldsOf(data) : new Map();
  const [revoke] = messagesIn(request, REQUEST.revoke);
  return {
    term: Number(numberIn(entry, RAFT_ENTRY.term)),
    proposer: header ? numberIn(header, 1) >> 48n : 0n,
    revoked: revoke && String(numberIn(revoke, 1)),
    puts: [
      ...messagesIn(request, REQUEST.put).map(bindingOf),
      ...messagesIn(request, REQUEST.txn).flatMap(putsIn),
    ],
  };
}

/**
 * The records of a file, whose end was allocated, but not written.
 *
 * @param {Buffer} file
 */
function* recordsIn(file) {
  for (let at = 0; at + 8 <= file.length;) {
    const frame = file.readBigUInt64LE(at);
    if (frame === 0n) return;
    const length = Number(frame & 0xff_ffff_ffff_ffffn);
    const padding = frame >> 63n === 1n ? Number((frame >> 56n) & 7n) : 0;
    try {
      const record = fieldsOf(file.subarray(at + 8, at + 8 + length));
      const type = Number(numberIn(record, RECORD.type));
      const [data] = bytesIn(record, RECORD.data);
      if (data !== undefined && (type === ENTRY || type === STATE)) yield { type, fields: fieldsOf(data) };
    } catch {
      // A kill has cut it. Nothing after it is certain.
      return;
    }
    at += 8 + length + padding;
  }
}

/**
 * The log of one server.
 *
 * @param {string} folder Of its data.
 * @returns {Log & { commit: number }}
 */
function logOf(folder) {
  const files = path.join(folder, 'member', 'wal');
  const names = readdirSync(files).filter((name) => name.endsWith('.wal'));
  /** @type {Map<number, Fields>} */
  const byIndex = new Map();
  /** @type {Log['votes']} */
  const votes = new Map();
  let commit = 0;
  for (const name of names.sort()) {
    for (const { type, fields } of recordsIn(readFileSync(path.join(files, name)))) {
      if (type === ENTRY) {
        // One that another leader has replaced comes again.
        byIndex.set(Number(numberIn(fields, RAFT_ENTRY.index)), fields);
      } else {
        commit = Math.max(commit, Number(numberIn(fields, HARD_STATE.commit)));
        const [term, vote] = [Number(numberIn(fields, HARD_STATE.term)), numberIn(fields, HARD_STATE.vote)];
        if (vote !== 0n) votes.set(term, (votes.get(term) ?? new Set()).add(vote & 0xffffn));
      }
    }
  }
  const committed = [...byIndex].filter(([index]) => index <= commit).sort(([a], [b]) => a - b);
  return { entries: committed.map(([, entry]) => entryOf(entry)), votes, commit };
}

/**
 * What all agreed on, by the log of the server that knows most of it, and who led in which term: the one that a majority
 * voted for, by the last 16 bits of its id.
 *
 * @param {readonly string[]} folders Of the servers' data.
 */
export function readLog(folders) {
  const logs = folders.map(logOf);
  const { entries } = logs.reduce((a, b) => (b.commit > a.commit ? b : a));
  const leaderOf = (/** @type {number} */ term) => {
    /** @type {Map<bigint, number>} */
    const counts = new Map();
    for (const { votes } of logs) {
      for (const vote of votes.get(term) ?? []) counts.set(vote, (counts.get(vote) ?? 0) + 1);
    }
    return [...counts].find(([, count]) => count > logs.length / 2)?.[0];
  };
  return { entries, leaderOf };
}
