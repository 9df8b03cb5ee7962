import { once } from 'node:events';
import http from 'node:http';
import { Redis } from 'ioredis';

/** The commands that the store sends. Others are refused, so that the tests show any further one. */
const KNOWN = new Set(['eval', 'evalsha', 'scan']);
const PIPELINE = '/pipeline';

/**
 * A stand-in for the REST interface of Upstash, in front of a server of the tests. A command is a JSON list in the body of a
 * POST to `/`; the path of pipelines takes a list of commands. A reply is `{ result }` or `{ error }`. With the header
 * `upstash-encoding: base64`, texts in results are encoded.
 */
export class UpstashRest {
  token = 'secret';
  /** The number of commands that were executed and whose answers will be lost. */
  lose = 0;
  #redis;
  #server = http.createServer((request, response) => void this.#answer(request, response));

  /** @param {number} port Of the server. */
  static async to(port) {
    const rest = new UpstashRest(port);
    rest.#server.listen(0, '127.0.0.1');
    await once(rest.#server, 'listening');
    return rest;
  }

  /** @param {number} port */
  constructor(port) {
    this.#redis = new Redis(port, '127.0.0.1');
    this.#redis.on('error', () => undefined);
  }

  get url() {
    return `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (this.#server.address()).port}`;
  }

  async stop() {
    this.#redis.disconnect();
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  /**
   * @param {http.IncomingMessage} request
   * @param {http.ServerResponse} response
   */
  async #answer(request, response) {
    const parts = [];
    for await (const part of request) parts.push(part);
    const { status, body } = await this.#replyTo(request, Buffer.concat(parts).toString());
    if (this.lose > 0) {
      this.lose--;
      request.socket.destroy();
      return;
    }
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }

  /**
   * @param {http.IncomingMessage} request
   * @param {string} text
   */
  async #replyTo({ method, url, headers }, text) {
    if (headers.authorization !== `Bearer ${this.token}`) {
      return { status: 401, body: { error: 'WRONGPASS invalid or missing auth token' } };
    }
    if (method !== 'POST' || (url !== '/' && url !== PIPELINE))
      return { status: 404, body: { error: 'ERR path' } };
    const encode =
      headers['upstash-encoding'] === 'base64' ? encoded : (/** @type {unknown} */ reply) => reply;
    const commands = JSON.parse(text);
    if (url === PIPELINE) {
      const replies = [];
      for (const command of commands) replies.push(await this.#run(command, encode));
      return { status: 200, body: replies };
    }
    const reply = await this.#run(commands, encode);
    return { status: 'error' in reply ? 400 : 200, body: reply };
  }

  /**
   * @param {[string, ...(string | number)[]]} command
   * @param {(reply: unknown) => unknown} encode
   */
  async #run([name, ...args], encode) {
    if (!KNOWN.has(name)) return { error: `ERR the stand-in does not know ${name}` };
    try {
      return { result: encode(await this.#redis.call(name, ...args)) };
    } catch (error) {
      return { error: /** @type {Error} */ (error).message };
    }
  }
}

/** @param {unknown} reply @returns {unknown} */
function encoded(reply) {
  if (Array.isArray(reply)) return reply.map(encoded);
  return typeof reply === 'string' ? Buffer.from(reply).toString('base64') : reply;
}
