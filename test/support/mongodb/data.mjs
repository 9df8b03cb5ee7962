// The documents of the stand-in, and what has changed in them. Each change is written to a journal before it counts, if
// there is one: then a server that is killed and started again has its data, its log of changes and the results of writes
// that may be sent again.

import { appendFileSync, existsSync, readFileSync, truncateSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { BSON, CommandError, decode, isSame } from './language.mjs';

/** @typedef {import('./language.mjs').Document} Document */

/** How many changes a stream can go back. */
const KEPT_CHANGES = 10_000;
const HISTORY_LOST = 286;

export class Data {
  /**
   * The documents of each namespace, by id.
   *
   * @type {Map<string, Map<string, Document>>}
   */
  #collections = new Map();
  /**
   * For each namespace.
   *
   * @type {Map<string, Document>}
   */
  #options = new Map();
  /**
   * Results of the last write of each session.
   *
   * @type {Map<string, { number: string, result: Document }>}
   */
  #results = new Map();
  /** @type {{ place: number, namespace: string, event: Document }[]} */
  #changes = [];
  #place = 0;
  /** Whether changes are reported as MongoDB does where what has changed is longer than the document. */
  reportsWhole = false;
  /** Differs between logs: a stream cannot continue in another one. */
  #log = randomUUID();
  /** @type {Set<() => void>} */
  #listeners = new Set();
  #journal;

  /** @param {string} [journal] A file. */
  constructor(journal) {
    this.#journal = journal;
    if (journal !== undefined && existsSync(journal))
      truncateSync(journal, this.#replay(readFileSync(journal)));
    else this.#write({ log: this.#log });
  }

  /** @param {string} namespace */
  collection(namespace) {
    let documents = this.#collections.get(namespace);
    if (!documents) this.#collections.set(namespace, (documents = new Map()));
    return documents;
  }

  /** @param {string} namespace */
  has(namespace) {
    return this.#collections.has(namespace);
  }

  /** @param {string} namespace */
  optionsOf(namespace) {
    return this.#options.get(namespace) ?? {};
  }

  /**
   * @param {string} namespace
   * @param {Document} options
   */
  setOptions(namespace, options) {
    this.collection(namespace);
    this.#options.set(namespace, options);
  }

  /**
   * @param {string} namespace
   * @param {string} id
   * @param {Document | undefined} after
   */
  change(namespace, id, after) {
    const before = this.collection(namespace).get(id);
    const entry = {
      namespace,
      id,
      after: after ?? null,
      event: eventOf(before, after, id, this.reportsWhole),
    };
    this.#write(entry);
    this.#apply(entry);
    for (const listener of this.#listeners) listener();
  }

  /**
   * The result of a write that was sent before with this number of its session.
   *
   * @param {string} session
   * @param {string} number
   */
  earlierResult(session, number) {
    const known = this.#results.get(session);
    return known?.number === number ? known.result : undefined;
  }

  /**
   * @param {string} session
   * @param {string} number
   * @param {Document} result
   */
  keepResult(session, number, result) {
    const entry = { session, number, result };
    this.#write(entry);
    this.#apply(entry);
  }

  /** Where a stream is that begins now. */
  get place() {
    return this.#place;
  }

  /** @param {number} place */
  tokenOf(place) {
    return { _data: `${this.#log}:${place}` };
  }

  /** @param {Document} token */
  placeOf(token) {
    const [log, place] = String(token['_data']).split(':');
    const oldest = this.#changes[0]?.place ?? this.#place + 1;
    if (log !== this.#log || Number(place) < oldest - 1) {
      throw new CommandError(HISTORY_LOST, 'the resume token is not in the log of changes any more');
    }
    return Number(place);
  }

  /**
   * @param {string} namespace
   * @param {number} place
   */
  changesSince(namespace, place) {
    const oldest = this.#changes[0]?.place ?? 0;
    return this.#changes
      .slice(Math.max(0, place + 1 - oldest))
      .filter((change) => change.namespace === namespace);
  }

  /** @param {() => void} listener */
  onChange(listener) {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** @param {Document} entry */
  #apply({ namespace, id, after, event, session, number, result, log }) {
    if (log !== undefined) this.#log = log;
    if (session !== undefined) this.#results.set(session, { number, result });
    if (namespace === undefined) return;
    if (after === null) this.collection(namespace).delete(id);
    else this.collection(namespace).set(id, after);
    this.#changes.push({ place: ++this.#place, namespace, event });
    if (this.#changes.length > 2 * KEPT_CHANGES) this.#changes.splice(0, KEPT_CHANGES);
  }

  /** @param {Document} entry */
  #write(entry) {
    if (this.#journal !== undefined) appendFileSync(this.#journal, BSON.serialize(entry));
  }

  /**
   * Returns how many bytes are complete entries. The last one may not be: then it was not answered.
   *
   * @param {Buffer} bytes
   */
  #replay(bytes) {
    let at = 0;
    while (at + 4 <= bytes.length && at + bytes.readInt32LE(at) <= bytes.length) {
      const end = at + bytes.readInt32LE(at);
      this.#apply(decode(bytes.subarray(at, end)));
      at = end;
    }
    return at;
  }
}

/**
 * The change in the form of a change stream.
 *
 * @param {Document | undefined} before
 * @param {Document | undefined} after
 * @param {string} id
 * @param {boolean} whole
 */
function eventOf(before, after, id, whole) {
  const documentKey = { _id: id };
  if (after === undefined) return { operationType: 'delete', documentKey };
  if (before === undefined) return { operationType: 'insert', documentKey, fullDocument: after };
  if (whole) return { operationType: 'replace', documentKey, fullDocument: after };
  const changed = Object.entries(after).filter(([field, value]) => {
    return !Object.hasOwn(before, field) || !isSame({ value }, { value: before[field] });
  });
  const updatedFields = Object.fromEntries(changed);
  const removedFields = Object.keys(before).filter((field) => !Object.hasOwn(after, field));
  return {
    operationType: 'update',
    documentKey,
    updateDescription: { updatedFields, removedFields, truncatedArrays: [] },
  };
}
