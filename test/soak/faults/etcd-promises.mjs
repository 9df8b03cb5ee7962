// Whether etcd itself ended a hold before the time that it had promised. Proven from what all holders asked and were
// answered, and from what the servers agreed on.

import { existsSync, readFileSync } from 'node:fs';

/** @typedef {import('./checker.mjs').Hold} Hold */
/** @typedef {ReturnType<typeof import('../../support/etcd-log.mjs').readLog>} Agreed */

/**
 * A request, and its answer if there was one.
 *
 * @typedef {object} Asked
 * @property {string} thread
 * @property {string} path
 * @property {string} body
 * @property {number} sent
 * @property {number} answered Infinity if it was not.
 * @property {any[]} messages Of the answer; none if it failed.
 */

/** @param {string} text */
const bodiesIn = (text) => text.split(/(?<=\})\n?(?=\{)/).map((one) => JSON.parse(one));

/**
 * @param {readonly string[]} files
 * @returns {Asked[]}
 */
export function readRequests(files) {
  /** @type {Map<string, Asked>} */
  const asked = new Map();
  const lines = files
    .filter((file) => existsSync(file))
    .flatMap((file) => readFileSync(file, 'utf8').split('\n'));
  for (const line of lines) {
    // A kill may have cut it.
    if (!line.endsWith('}')) continue;
    const { thread, number, at, path, body, status, text } = JSON.parse(line);
    const id = `${thread}/${number}`;
    const request = asked.get(id);
    if (request === undefined) {
      const name = path.slice('/v3/'.length);
      asked.set(id, { thread, path: name, body, sent: at, answered: Infinity, messages: [] });
    } else if (status === 200) {
      request.answered = at;
      request.messages = text
        .split('\n')
        .filter((/** @type {string} */ one) => one !== '')
        .map((/** @type {string} */ one) => JSON.parse(one))
        .map((/** @type {any} */ message) => message.result ?? message);
    }
  }
  return [...asked.values()];
}

/** @param {any} message */
const termOf = (message) => message?.header?.raft_term;

/**
 * The puts of a transaction, and of those within it.
 *
 * @param {any} txn
 * @returns {any[]}
 */
const putsOf = ({ success = [] }) =>
  success.flatMap((/** @type {any} */ { requestPut, requestTxn }) =>
    requestPut ? [requestPut] : requestTxn ? putsOf(requestTxn) : [],
  );

/**
 * The same, of those that were executed.
 *
 * @param {any} txn
 * @param {any} message
 * @returns {any[]}
 */
const executed = ({ success = [] }, { succeeded = false, responses = [] } = /** @type {any} */ ({})) =>
  succeeded
    ? success.flatMap((/** @type {any} */ { requestPut, requestTxn }, /** @type {number} */ i) =>
        requestPut ? [requestPut] : requestTxn ? executed(requestTxn, responses[i]?.response_txn) : [],
      )
    : [];

const text = (/** @type {string} */ base64) => Buffer.from(base64, 'base64').toString();
const nameOf = (/** @type {string} */ key) => `stripelock/lease/${key}`;

/**
 * The transactions that bound the key of a hold to an etcd lease, in their order, as its holder was told before it ended.
 *
 * @param {Hold} hold
 * @param {readonly Asked[]} asked
 * @returns {{ lease: string, request: Asked }[]}
 */
function bindingsOf({ key, token, end }, asked) {
  return asked
    .filter(({ path, sent, messages }) => path === 'kv/txn' && sent < end && messages.length > 0)
    .sort((a, b) => a.sent - b.sent)
    .flatMap((request) =>
      executed(JSON.parse(request.body), request.messages[0])
        .filter((put) => put.lease !== undefined && text(put.key) === nameOf(key))
        .filter((put) => {
          const { base, revision = request.messages[0].header.revision } = JSON.parse(text(put.value));
          return BigInt(base) + BigInt(revision) === token;
        })
        .map(({ lease }) => ({ lease, request })),
    );
}

/**
 * Where in the log a hold was granted, or before that: the log also has attempts at the same with the same etcd lease that
 * were refused. -1 if it is not known.
 *
 * @param {Hold} hold
 * @param {readonly Asked[]} asked
 * @param {Agreed['entries']} entries
 */
function grantedFrom(hold, asked, entries) {
  const [grant] = bindingsOf(hold, asked);
  if (grant === undefined) return -1;
  const isSame = (/** @type {any} */ put) => text(put.key) === nameOf(hold.key) && put.lease === grant.lease;
  const refused = asked.filter(
    ({ path, body, answered, messages }) =>
      path === 'kv/txn' &&
      messages.length > 0 &&
      answered <= grant.request.sent &&
      putsOf(JSON.parse(body)).some(isSame),
  );
  const places = entries.flatMap(({ puts }, i) =>
    puts.some(({ key, lease }) => key === nameOf(hold.key) && lease === grant.lease) ? [i] : [],
  );
  return places[refused.length] ?? -1;
}

/**
 * Until when etcd has promised to keep a lease: its TTL, counted from before each request that was answered with it. A
 * leader that was replaced answers keep-alives, too. So one counts only if what its client asked afterwards, and servers
 * must agree on, was answered in the same term.
 *
 * @param {string} lease
 * @param {number} until What was sent later does not count.
 * @param {readonly Asked[]} asked
 */
function promisedUntil(lease, until, asked) {
  let promised = -Infinity;
  for (const { thread, path, body, sent, answered, messages } of asked) {
    if (messages.length === 0 || sent >= until) continue;
    if (path !== 'lease/grant' && path !== 'lease/keepalive') continue;
    const at = bodiesIn(body).findIndex(({ ID }) => ID === lease);
    const { TTL = '0', ID } = messages[at] ?? {};
    if (at < 0 || ID !== lease || !(Number(TTL) > 0)) continue;
    const isProven =
      path === 'lease/grant' ||
      asked.some(
        (later) =>
          later.thread === thread &&
          later.sent >= answered &&
          (later.path === 'kv/range' || later.path === 'kv/txn') &&
          termOf(later.messages[0]) === termOf(messages[at]),
      );
    if (isProven) promised = Math.max(promised, sent + Number(TTL) * 1000);
  }
  return promised;
}

/**
 * Undefined unless all of this is proven: etcd had promised to keep the lease of the hold that was granted first for as long
 * as that was certain; the servers agreed to revoke it before they could agree on the other grant; and no holder had asked
 * for that. `left`: milliseconds that were promised when the other was told of its grant.
 *
 * @param {import('./checker.mjs').Overlap} overlap
 * @param {readonly Asked[]} asked Of all holders.
 * @param {Agreed} agreed
 */
export function endedEarly({ holds }, asked, { entries, leaderOf }) {
  const [first, second] = holds[0].token < holds[1].token ? holds : [holds[1], holds[0]];
  const lease = bindingsOf(first, asked).at(-1)?.lease;
  if (lease === undefined) return undefined;
  const promised = promisedUntil(lease, first.end, asked);
  if (!(promised >= first.end)) return undefined;
  const isRevoked = asked.some(
    ({ path, body, sent }) =>
      path === 'lease/revoke' && sent < second.return && bodiesIn(body).some(({ ID }) => ID === lease),
  );
  if (isRevoked) return undefined;
  const revoked = entries.findIndex((entry) => entry.revoked === lease);
  if (revoked < 0 || revoked > grantedFrom(second, asked, entries)) return undefined;
  const { term, proposer } = entries[revoked];
  return { lease, left: promised - second.return, term, proposer, leader: leaderOf(term) };
}
