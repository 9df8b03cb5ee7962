// A small server that speaks the wire protocol of MongoDB, for tests of the MongoDB store with the real driver where no
// mongod can be installed. Of the commands, the query language and the update language it knows exactly what the store
// uses, and refuses everything else with an error that names it. It checks that each write waits for a majority, and that
// nothing is part of a transaction. Values have the types of BSON, and are compared in MongoDB's order.
//
// It proves that the store's statements are what MongoDB's documentation says that they mean, with the drivers as they
// are. It does not prove that MongoDB behaves as documented. It is one process: there are no elections, nothing that a
// majority does not have is ever undone, clocks of members do not differ, and write conflicts, errors and late answers are
// injected. Documents do not expire: the TTL index is only remembered. A real server is tested by STRIPELOCK_MONGODB_URL.

import { once } from 'node:events';
import net from 'node:net';
import { Data } from './data.mjs';
import { checkWriteConcern, commands } from './commands.mjs';
import { CommandError } from './language.mjs';
import { Streams } from './streams.mjs';
import { reader, reply } from './wire.mjs';

/** @typedef {import('./language.mjs').Document} Document */

/**
 * Faults of the next commands of a name.
 *
 * @typedef {object} Failure
 * @property {string} command
 * @property {number} [times] Default 1.
 * @property {{ code: number, message?: string, labels?: readonly string[] }} [error] In place of the result.
 * @property {{ code: number, message: string }} [writeConcernError] Beside the result.
 * @property {boolean} [executes] Whether an error comes although the command was executed. Default false.
 * @property {Promise<unknown>} [until] The command is executed only then.
 * @property {Promise<unknown>} [answers] The answer is sent only then.
 */

const COMMAND_NOT_FOUND = 59;
const UNKNOWN_MEMBER = 40415;

export class StandIn {
  port = 0;
  /**
   * Names of commands with their documents, in the order of arrival. Greetings and pings are left out.
   *
   * @type {{ name: string, command: Document }[]}
   */
  log = [];
  data;
  #streams;
  #isReplicaSet;
  #keepsLog;
  /** @type {Failure[]} */
  #failures = [];
  /** @type {Set<net.Socket>} */
  #connections = new Set();
  #server = net.createServer((socket) => this.#serve(socket));

  /** @param {{ isReplicaSet?: boolean, journal?: string, keepsLog?: boolean }} [options] */
  constructor({ isReplicaSet = true, journal, keepsLog = true } = {}) {
    this.#isReplicaSet = isReplicaSet;
    this.#keepsLog = keepsLog;
    this.data = new Data(journal);
    this.#streams = new Streams(this.data);
  }

  /**
   * @param {ConstructorParameters<typeof StandIn>[0]} [options]
   * @param {number} [port]
   */
  static async start(options, port = 0) {
    const server = new StandIn(options);
    server.#server.listen(port, '127.0.0.1');
    await once(server.#server, 'listening');
    server.port = /** @type {net.AddressInfo} */ (server.#server.address()).port;
    return server;
  }

  get url() {
    return `mongodb://127.0.0.1:${this.port}/?directConnection=true`;
  }

  /** How many change streams are open. */
  get streams() {
    return this.#streams.count;
  }

  /** @param {Failure} failure */
  fail(failure) {
    this.#failures.push({ times: 1, ...failure });
  }

  /** Ends all connections. */
  cut() {
    for (const socket of this.#connections) socket.destroy();
  }

  async stop() {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  /** @param {net.Socket} socket */
  #serve(socket) {
    const gone = new AbortController();
    this.#connections.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#connections.delete(socket);
      gone.abort();
    });
    const handle = reader((request) => void this.#respond(request, socket, gone.signal));
    socket.on('data', (data) => {
      try {
        handle(data);
      } catch (error) {
        socket.destroy(/** @type {Error} */ (error));
      }
    });
  }

  /**
   * A greeting that waits for changes has one answer after the other.
   *
   * @param {import('./wire.mjs').Request} request
   * @param {net.Socket} socket
   * @param {AbortSignal} gone
   */
  async #respond(request, socket, gone) {
    const isRepeated = request.allowsMore && request.command['topologyVersion'] !== undefined;
    do {
      const answer = await this.#answer(request.command, gone);
      if (request.awaitsReply && !socket.destroyed) socket.write(reply(request, answer, isRepeated));
    } while (isRepeated && !gone.aborted);
  }

  /**
   * @param {Document} command
   * @param {AbortSignal} gone
   * @returns {Promise<Document>}
   */
  async #answer(command, gone) {
    const [name = ''] = Object.keys(command);
    const isGreeting = commands[name]?.[0] === undefined;
    if (this.#keepsLog && !isGreeting && name !== 'ping') this.log.push({ name, command });
    const failure = this.#failureOf(name);
    try {
      if (failure?.until) await failure.until;
      if (failure?.error && failure.executes !== true) throw errorOf(failure.error);
      const result = await this.#execute(name, command, gone);
      if (failure?.answers) await failure.answers;
      if (failure?.error) throw errorOf(failure.error);
      return {
        ...result,
        ...(failure?.writeConcernError && { writeConcernError: failure.writeConcernError }),
        ok: 1,
      };
    } catch (error) {
      const { code = 1, message, labels = [] } = /** @type {CommandError} */ (error);
      return { ok: 0, code, errmsg: message, ...(labels.length > 0 && { errorLabels: labels }) };
    }
  }

  /** @param {string} name */
  #failureOf(name) {
    const failure = this.#failures.find(({ command }) => command === name);
    if (!failure) return undefined;
    failure.times = /** @type {number} */ (failure.times) - 1;
    if (failure.times === 0) this.#failures.splice(this.#failures.indexOf(failure), 1);
    return failure;
  }

  /**
   * A write that is sent again, with the same number of its session, is not executed again.
   *
   * @param {string} name
   * @param {Document} command
   * @param {AbortSignal} gone
   */
  async #execute(name, command, gone) {
    const known = commands[name];
    if (!known) throw new CommandError(COMMAND_NOT_FOUND, `no such command: '${name}'`);
    const [members, run] = known;
    const unknown = Object.keys(command).find(
      (member) => member !== name && members && !members.includes(member),
    );
    if (unknown !== undefined) {
      throw new CommandError(UNKNOWN_MEMBER, `this stand-in of MongoDB does not know ${unknown} of ${name}`);
    }
    checkWriteConcern(name, command);
    const context = {
      data: this.data,
      streams: this.#streams,
      port: this.port,
      isReplicaSet: this.#isReplicaSet,
      gone,
    };
    if (command['txnNumber'] === undefined) {
      const { stored: _, ...result } = await run(command, context);
      return result;
    }
    const session = command['lsid'].id.toString('hex');
    const number = String(command['txnNumber']);
    const earlier = this.data.earlierResult(session, number);
    if (earlier) return earlier;
    const { place } = this.data;
    const { stored, ...result } = await run(command, context);
    // A command that changed nothing may be executed again. A server keeps documents as they were stored, without a
    // projection.
    const kept = stored === undefined ? result : { ...result, value: stored };
    if (this.data.place !== place) this.data.keepResult(session, number, kept);
    return result;
  }
}

/** @param {NonNullable<Failure['error']>} error */
function errorOf({ code, message = `injected error ${code}`, labels }) {
  return new CommandError(code, message, labels);
}
