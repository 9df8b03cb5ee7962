// Messages of the wire protocol: OP_MSG, and OP_QUERY for the first greeting.

import { BSON, CommandError, decode } from './language.mjs';

/** @typedef {import('./language.mjs').Document} Document */

/**
 * @typedef {object} Request
 * @property {number} id
 * @property {boolean} isLegacy An OP_QUERY.
 * @property {boolean} awaitsReply
 * @property {boolean} allowsMore Whether there may be more than one reply.
 * @property {Document} command
 */

const OP_REPLY = 1;
const OP_QUERY = 2004;
const OP_MSG = 2013;
const HEADER = 16;
const CHECKSUM = 1;
const MORE_TO_COME = 2;
const EXHAUST_ALLOWED = 1 << 16;

/**
 * Cuts a stream of bytes into requests.
 *
 * @param {(request: Request) => void} handle
 * @returns {(data: Buffer) => void}
 */
export function reader(handle) {
  /** @type {Buffer} */
  let rest = Buffer.alloc(0);
  return (data) => {
    rest = Buffer.concat([rest, data]);
    while (rest.length >= 4 && rest.length >= rest.readInt32LE(0)) {
      const message = rest.subarray(0, rest.readInt32LE(0));
      rest = rest.subarray(message.length);
      handle(parse(message));
    }
  };
}

/**
 * @param {Buffer} message
 * @returns {Request}
 */
function parse(message) {
  const id = message.readInt32LE(4);
  const operation = message.readInt32LE(12);
  if (operation === OP_QUERY) {
    const name = HEADER + 4;
    const command = decode(message.subarray(message.indexOf(0, name) + 1 + 8));
    return { id, isLegacy: true, awaitsReply: true, allowsMore: false, command };
  }
  if (operation !== OP_MSG) throw new CommandError(59, `unknown operation ${operation} of the wire protocol`);
  const flags = message.readInt32LE(HEADER);
  if (flags & CHECKSUM) throw new CommandError(59, 'checksums of messages are unknown');
  const awaitsReply = (flags & MORE_TO_COME) === 0;
  const allowsMore = (flags & EXHAUST_ALLOWED) !== 0;
  return { id, isLegacy: false, awaitsReply, allowsMore, command: sections(message, HEADER + 4) };
}

/**
 * The body, and sequences of documents, which are members of the body.
 *
 * @param {Buffer} message
 * @param {number} start
 */
function sections(message, start) {
  const command = /** @type {Document} */ ({});
  for (let at = start; at < message.length;) {
    const isBody = message[at++] === 0;
    const end = at + message.readInt32LE(at);
    if (isBody) {
      Object.assign(command, decode(message.subarray(at, end)));
    } else {
      const nameEnd = message.indexOf(0, at + 4);
      const documents = [];
      for (let from = nameEnd + 1; from < end; from += message.readInt32LE(from)) {
        documents.push(decode(message.subarray(from, from + message.readInt32LE(from))));
      }
      command[message.toString('utf8', at + 4, nameEnd)] = documents;
    }
    at = end;
  }
  return command;
}

/**
 * @param {Request} request
 * @param {Document} answer
 * @param {boolean} moreToCome
 */
export function reply({ id, isLegacy }, answer, moreToCome) {
  const body = Buffer.from(BSON.serialize(answer));
  const head = Buffer.alloc(isLegacy ? 36 : 21);
  head.writeInt32LE(head.length + body.length, 0);
  head.writeInt32LE(id, 8);
  head.writeInt32LE(isLegacy ? OP_REPLY : OP_MSG, 12);
  if (moreToCome) head.writeInt32LE(MORE_TO_COME, HEADER);
  // OP_REPLY: one document follows.
  if (isLegacy) head.writeInt32LE(1, 32);
  return Buffer.concat([head, body]);
}
