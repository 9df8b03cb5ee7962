// The commands of the stand-in. Each is one step of the event loop, so it is atomic.

import { setTimeout as delay } from 'node:timers/promises';
import { nextMillisecond } from '../next-millisecond.mjs';
import {
  BAD_VALUE,
  BSON,
  CommandError,
  isSame,
  matches,
  projected,
  refuse,
  sorted,
  UNKNOWN_STAGE,
  updated,
} from './language.mjs';

/** @typedef {import('./language.mjs').Document} Document */

/**
 * @typedef {object} Context What a command works with.
 * @property {import('./data.mjs').Data} data
 * @property {import('./streams.mjs').Streams} streams
 * @property {number} port
 * @property {boolean} isReplicaSet
 * @property {AbortSignal} gone Aborts when the connection has ended.
 */

const DUPLICATE_KEY = 11000;
const INDEX_CONFLICT = 85;
const NO_WRITE_CONCERN = 79;
const ONLY_ON_REPLICA_SETS = 40573;
/** MongoDB 7.0. */
const WIRE_VERSION = 21;

/** The fields that any command may have. */
const COMMON = ['$db', 'lsid', '$clusterTime', '$readPreference', 'maxTimeMS'];
const WRITING = [...COMMON, 'txnNumber', 'writeConcern'];

/**
 * For each name: what else it may have, and what it does.
 *
 * @type {Record<string, [members: readonly string[] | undefined, run: (command: Document, context: Context) => Document | Promise<Document>]>}
 */
export const commands = {
  hello: [undefined, hello],
  ismaster: [undefined, hello],
  isMaster: [undefined, hello],
  ping: [COMMON, () => ({})],
  buildInfo: [COMMON, () => ({ version: '7.0.0', versionArray: [7, 0, 0, 0] })],
  endSessions: [COMMON, () => ({})],
  killCursors: [[...COMMON, 'cursors'], killCursors],
  createIndexes: [[...WRITING, 'indexes'], createIndexes],
  listCollections: [[...COMMON, 'filter', 'cursor', 'nameOnly', 'authorizedCollections'], listCollections],
  findAndModify: [[...WRITING, 'query', 'update', 'upsert', 'new', 'remove', 'fields'], findAndModify],
  update: [[...WRITING, 'updates', 'ordered'], update],
  delete: [[...WRITING, 'deletes', 'ordered'], remove],
  find: [
    [...COMMON, 'filter', 'projection', 'sort', 'limit', 'singleBatch', 'batchSize', 'readConcern'],
    find,
  ],
  aggregate: [[...COMMON, 'pipeline', 'cursor', 'readConcern'], aggregate],
  getMore: [
    [...COMMON, 'collection', 'batchSize'],
    (command, { streams, gone }) => more(command, streams, gone),
  ],
};

/** The id of this process. Its presence has the driver keep a greeting pending, so that it notices at once when a server is gone. */
const topologyVersion = { processId: new BSON.ObjectId(), counter: 0n };

/** Nothing changes, so one that waits for a change is answered when its time limit has passed. */
/** @type {(command: Document, context: Context) => Promise<Document>} */
async function hello({ maxAwaitTimeMS }, { port, isReplicaSet, gone }) {
  if (maxAwaitTimeMS !== undefined) {
    await delay(Number(maxAwaitTimeMS), undefined, { signal: gone }).catch(() => undefined);
  }
  const host = `127.0.0.1:${port}`;
  const set = { setName: 'stand-in', hosts: [host], primary: host, me: host, secondary: false };
  return {
    helloOk: true,
    isWritablePrimary: true,
    ismaster: true,
    topologyVersion,
    maxBsonObjectSize: 16 * 2 ** 20,
    maxMessageSizeBytes: 48_000_000,
    maxWriteBatchSize: 100_000,
    localTime: new Date(),
    logicalSessionTimeoutMinutes: 30,
    minWireVersion: 0,
    maxWireVersion: WIRE_VERSION,
    readOnly: false,
    ...(isReplicaSet && set),
  };
}

/**
 * The namespace that a command names.
 *
 * @param {Document} command
 */
export function namespaceOf(command) {
  const [name] = Object.values(command);
  return `${command['$db']}.${name}`;
}

/**
 * A write that counts before a majority has it may be undone, so sending one is a bug.
 *
 * @param {string} name
 * @param {Document} command
 */
export function checkWriteConcern(name, command) {
  if (!['createIndexes', 'findAndModify', 'update', 'delete'].includes(name)) return;
  const { w } = command['writeConcern'] ?? {};
  if (w !== 'majority') throw new CommandError(NO_WRITE_CONCERN, `${name} without w: 'majority', but ${w}`);
}

/**
 * The document at the `_id` of a filter before and after an update; both undefined if it matches none.
 *
 * @param {Document} command
 * @param {{ q: Document, u: unknown, upsert: boolean }} statement
 * @param {import('./data.mjs').Data} data
 * @param {Date} now
 */
function write(command, { q, u, upsert }, data, now) {
  const namespace = namespaceOf(command);
  const id = q['_id'];
  if (typeof id !== 'string') refuse(BAD_VALUE, 'a write that names no _id');
  const documents = data.collection(namespace);
  const before = documents.get(id);
  if (before && matches(q, before, now)) {
    const after = updated(before, u, now);
    const changes = !isSame(before, after);
    if (changes) data.change(namespace, id, after);
    return { before, after, changes };
  }
  if (!upsert) return { before: undefined, after: undefined, changes: false };
  // MongoDB inserts what the filter asks for, and finds that the key is there.
  if (before) throw new CommandError(DUPLICATE_KEY, `E11000 duplicate key error: _id ${JSON.stringify(id)}`);
  const { $expr: _, ...fields } = q;
  const after = updated(fields, u, now);
  data.change(namespace, id, after);
  return { before: undefined, after, changes: true };
}

/** @type {(command: Document, context: Context) => Document} */
function findAndModify(command, { data }) {
  const { query, update: pipeline, upsert, new: wantsNew, remove: removes, fields } = command;
  if (removes) refuse(BAD_VALUE, 'a removal by findAndModify');
  const now = new Date();
  const { before, after } = write(command, { q: query, u: pipeline, upsert }, data, now);
  const found = wantsNew ? after : before;
  return {
    value: found ? projected(found, fields, now) : null,
    stored: found ?? null,
    lastErrorObject: { n: after ? 1 : 0, updatedExisting: before !== undefined },
  };
}

/** @type {(command: Document, context: Context) => Document} */
function update(command, { data }) {
  const { updates } = command;
  if (updates.length !== 1) refuse(BAD_VALUE, 'several updates in one command');
  const [{ q, u, upsert, multi }] = updates;
  if (multi) refuse(BAD_VALUE, 'an update of several documents');
  const { after, changes } = write(command, { q, u, upsert }, data, new Date());
  return { n: after ? 1 : 0, nModified: changes ? 1 : 0 };
}

/** Tests only. */
/** @type {(command: Document, context: Context) => Document} */
function remove(command, { data }) {
  const namespace = namespaceOf(command);
  const now = new Date();
  let n = 0;
  for (const { q } of command['deletes']) {
    for (const [id, document] of [...data.collection(namespace)]) {
      if (!matches(q, document, now)) continue;
      data.change(namespace, id, undefined);
      n++;
    }
  }
  nextMillisecond();
  return { n };
}

/** @type {(command: Document, context: Context) => Document} */
function find(command, { data }) {
  const namespace = namespaceOf(command);
  const now = new Date();
  const found = [...data.collection(namespace).values()].filter((document) =>
    matches(command['filter'], document, now),
  );
  if (command['sort']) sorted(found, command['sort']);
  const limit = Number(command['limit'] ?? 0) || found.length;
  const firstBatch = found.slice(0, limit).map((document) => projected(document, command['projection'], now));
  return { cursor: { id: 0n, ns: namespace, firstBatch } };
}

/** @type {(command: Document, context: Context) => Document} */
function aggregate(command, { streams, isReplicaSet }) {
  const [first] = command['pipeline'];
  if (first?.$changeStream === undefined) refuse(UNKNOWN_STAGE, 'an aggregation that is not a change stream');
  if (!isReplicaSet) {
    throw new CommandError(ONLY_ON_REPLICA_SETS, 'The $changeStream stage is only supported on replica sets');
  }
  const level = command['readConcern']?.level;
  if (level !== 'majority') refuse(BAD_VALUE, `a change stream with the read concern ${level}`);
  return { cursor: streams.open(namespaceOf(command), command['pipeline']) };
}

/**
 * @param {Document} command
 * @param {import('./streams.mjs').Streams} streams
 * @param {AbortSignal} gone
 */
async function more(command, streams, gone) {
  return { cursor: await streams.more(command, gone) };
}

/** @type {(command: Document, context: Context) => Document} */
function killCursors(command, { streams }) {
  streams.kill(command['cursors']);
  return { cursorsKilled: command['cursors'], cursorsNotFound: [], cursorsAlive: [], cursorsUnknown: [] };
}

/** Remembered, and never carried out: documents do not go. */
/** @type {(command: Document, context: Context) => Document} */
function createIndexes(command, { data }) {
  const namespace = namespaceOf(command);
  const options = data.optionsOf(namespace);
  const known = /** @type {Record<string, Document>} */ (options['indexes'] ?? {});
  for (const index of command['indexes']) {
    const earlier = known[index.name];
    if (earlier && !isSame(earlier, index)) {
      throw new CommandError(INDEX_CONFLICT, `an index ${index.name} exists with different options`);
    }
    known[index.name] = index;
  }
  data.setOptions(namespace, { ...options, indexes: known });
  return {};
}

/** @type {(command: Document, context: Context) => Document} */
function listCollections(command, { data }) {
  const { name } = command['filter'];
  const namespace = `${command['$db']}.${name}`;
  const { indexes: _, ...options } = data.optionsOf(namespace);
  const firstBatch = data.has(namespace) ? [{ name, type: 'collection', options }] : [];
  return { cursor: { id: 0n, ns: `${command['$db']}.$cmd.listCollections`, firstBatch } };
}
