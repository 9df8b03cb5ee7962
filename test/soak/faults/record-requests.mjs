// Loaded before all else in each thread of a holder: writes down what it asks of servers over HTTP, before it is sent, and
// what they answer. So a kill or a pause loses nothing that a server may have done.

import { appendFileSync } from 'node:fs';
import http from 'node:http';
import { threadId } from 'node:worker_threads';
import { now } from './clock.mjs';

/** Watches, which never end, are left out. */
const UNRECORDED = /\/watch$/;

const file = process.env['STRIPELOCK_REQUESTS'];
const thread = `${process.pid}/${threadId}`;
let sent = 0;

const { prototype } = http.ClientRequest;
const end = prototype.end;
/** @this {http.ClientRequest} */
prototype.end = /** @type {typeof end} */ (
  function (/** @type {any[]} */ ...args) {
    if (file !== undefined && !UNRECORDED.test(this.path)) record(file, this, String(args[0] ?? ''));
    return Reflect.apply(end, this, args);
  }
);

/**
 * @param {string} file
 * @param {http.ClientRequest} request
 * @param {string} body
 */
function record(file, request, body) {
  const number = ++sent;
  const add = (/** @type {object} */ entry) =>
    appendFileSync(file, `${JSON.stringify({ thread, number, at: now(), ...entry })}\n`);
  add({ path: request.path, body });
  request.on('response', (response) => {
    let text = '';
    response.on('data', (part) => (text += part));
    response.on('end', () => add({ status: response.statusCode, text }));
  });
}
