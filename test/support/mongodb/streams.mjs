// Change streams: cursors over the log of changes.

import { BAD_VALUE, CommandError, matches, projected, refuse, UNKNOWN_STAGE } from './language.mjs';

/** @typedef {import('./language.mjs').Document} Document */

const CURSOR_NOT_FOUND = 43;
/** Milliseconds for which a stream waits for news if its client names no time. */
const DEFAULT_AWAIT = 1000;
const OPTIONS = ['resumeAfter', 'startAfter'];

/**
 * @typedef {object} Stream
 * @property {string} namespace
 * @property {number} place
 * @property {Document[]} stages
 */

export class Streams {
  #data;
  /** @type {Map<bigint, Stream>} */
  #open = new Map();
  #ids = 0n;

  /** @param {import('./data.mjs').Data} data */
  constructor(data) {
    this.#data = data;
  }

  get count() {
    return this.#open.size;
  }

  /**
   * @param {string} namespace
   * @param {Document[]} pipeline
   */
  open(namespace, [{ $changeStream: options }, ...stages]) {
    const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name));
    if (unknown !== undefined) refuse(BAD_VALUE, `the option ${unknown} of a change stream`);
    const token = options.resumeAfter ?? options.startAfter;
    const place = token === undefined ? this.#data.place : this.#data.placeOf(token);
    const id = ++this.#ids;
    const stream = { namespace, place, stages };
    // A pipeline that is unknown is refused now, not when something changes.
    this.#through(stages, { operationType: 'none', documentKey: {} });
    this.#open.set(id, stream);
    return this.#cursor(id, stream, 'firstBatch');
  }

  /**
   * Waits until something has changed, but at most as long as asked for.
   *
   * @param {Document} command
   * @param {AbortSignal} gone Of the connection.
   */
  async more({ getMore: id, maxTimeMS }, gone) {
    const stream = this.#streamOf(id);
    const end = performance.now() + (maxTimeMS === undefined ? DEFAULT_AWAIT : Number(maxTimeMS));
    for (;;) {
      const cursor = this.#cursor(id, stream, 'nextBatch');
      const left = end - performance.now();
      // The error with which MongoDB ends a stream of a client that is gone.
      if (gone.aborted) this.#open.delete(id);
      if (cursor['nextBatch'].length > 0 || left <= 0 || gone.aborted) return cursor;
      await this.#news(left, gone);
      this.#streamOf(id);
    }
  }

  /** @param {bigint[]} ids */
  kill(ids) {
    for (const id of ids) this.#open.delete(id);
  }

  /** @param {bigint} id */
  #streamOf(id) {
    const stream = this.#open.get(id);
    if (!stream) throw new CommandError(CURSOR_NOT_FOUND, `cursor id ${id} not found`);
    return stream;
  }

  /**
   * @param {number} milliseconds
   * @param {AbortSignal} gone
   */
  #news(milliseconds, gone) {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        stop();
        gone.removeEventListener('abort', done);
        resolve(undefined);
      };
      const timer = setTimeout(done, milliseconds);
      const stop = this.#data.onChange(done);
      gone.addEventListener('abort', done);
    });
  }

  /**
   * @param {bigint} id
   * @param {Stream} stream
   * @param {'firstBatch' | 'nextBatch'} name
   * @returns {Document}
   */
  #cursor(id, stream, name) {
    const batch = this.#data
      .changesSince(stream.namespace, stream.place)
      .map(({ place, event }) => this.#through(stream.stages, { _id: this.#data.tokenOf(place), ...event }))
      .filter((event) => event !== undefined);
    stream.place = this.#data.place;
    const token = this.#data.tokenOf(stream.place);
    return { id, ns: stream.namespace, [name]: batch, postBatchResumeToken: token };
  }

  /**
   * Undefined if a stage drops it.
   *
   * @param {Document[]} stages
   * @param {Document} event
   */
  #through(stages, event) {
    const now = new Date();
    /** @type {Document | undefined} */
    let result = event;
    for (const { $match, $project, ...rest } of stages) {
      const [unknown] = Object.keys(rest);
      if (unknown !== undefined) refuse(UNKNOWN_STAGE, `the stage ${unknown} of a change stream`);
      if (result && $match && !matches($match, result, now)) result = undefined;
      if (result && $project) result = projected(result, $project, now);
    }
    return result;
  }
}
