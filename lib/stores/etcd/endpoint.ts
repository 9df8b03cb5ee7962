import type { Agent, ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import type { Socket } from 'node:net';
import { codeOf } from '../../common/errors.js';
import type { EtcdTls } from './options.js';
import { EtcdFailure, failureOf } from './gateway.js';

/** The maximum number of connections to one server. Further requests queue. */
const MOST_CONNECTIONS = 128;

/** Error codes that mean that no connection was established, so nothing was sent. */
const UNREACHED: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);

/** One server of the cluster, reached over persistent HTTP connections. */
export class Endpoint {
  readonly #options: RequestOptions;
  readonly #agent: Agent;
  /**
   * The agent for watches. It is a separate agent, because each watch occupies a connection as long as the
   * watch is open.
   */
  readonly #watching: Agent;
  readonly #request: (options: RequestOptions) => ClientRequest;
  readonly #path: string;

  constructor(url: URL, tls: EtcdTls | undefined) {
    // `node:https` and `node:http` are loaded lazily, because programs with other stores do not need them.
    const { hostname, port, protocol, pathname } = url;
    const kept = { keepAlive: true, maxSockets: MOST_CONNECTIONS };
    if (protocol === 'https:') {
      const https = process.getBuiltinModule('node:https');
      const secure = { ...(tls as object) };
      this.#agent = new https.Agent({ ...secure, ...kept });
      this.#watching = new https.Agent(secure);
      this.#request = https.request;
    } else {
      const http = process.getBuiltinModule('node:http');
      this.#agent = new http.Agent(kept);
      this.#watching = new http.Agent();
      this.#request = http.request;
    }
    // A URL contains an IPv6 address in brackets, but the option `host` must not contain brackets.
    this.#options = { host: hostname.replace(/^\[(.*)\]$/, '$1'), port, protocol, method: 'POST' };
    this.#path = `${pathname.replace(/\/$/, '')}/v3/`;
  }

  /**
   * Resolves to the body of the answer, or rejects with an EtcdFailure. Calls `onAbort` with a function that
   * aborts the request.
   */
  post(
    path: string,
    body: string,
    token: string | undefined,
    onAbort: (abort: (reason: Error) => void) => void,
  ): Promise<string> {
    return new Promise((resolve, reject) => {
      const request = this.#start(path, body, token, this.#agent);
      const fail = (error: Error): void => {
        reject(new EtcdFailure(error.message, undefined, !UNREACHED.has(codeOf(error)), error));
      };
      request.on('error', fail);
      request.on('response', (response) => {
        collect(response, fail, (text) => {
          const { statusCode = 0 } = response;
          if (statusCode === 200) resolve(text);
          else reject(failureOf(statusCode, text));
        });
      });
      onAbort((reason) => {
        fail(reason);
        request.destroy();
      });
    });
  }

  /**
   * Opens a stream of lines on a separate connection that does not keep the process alive. The returned
   * function closes the stream. `ended` is called at least once, even if the stream was closed by that
   * function.
   */
  watch(
    body: string,
    token: string | undefined,
    line: (text: string) => void,
    ended: () => void,
  ): () => void {
    const request = this.#start('watch', body, token, this.#watching);
    request.on('socket', (socket: Socket) => socket.unref());
    request.on('error', ended);
    request.on('response', (response) => {
      let rest = '';
      response.setEncoding('utf8');
      response.on('error', ended).on('close', ended);
      response.on('data', (part: string) => {
        const lines = (rest + part).split('\n');
        rest = lines.pop()!;
        for (const text of lines) line(text);
      });
    });
    return () => request.destroy();
  }

  close(): void {
    this.#agent.destroy();
    this.#watching.destroy();
  }

  #start(path: string, body: string, token: string | undefined, agent: Agent): ClientRequest {
    const headers: { [name: string]: string | number } = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    };
    if (token !== undefined) headers['authorization'] = token;
    const request = this.#request({ ...this.#options, path: this.#path + path, headers, agent });
    request.end(body);
    return request;
  }
}

function collect(
  response: IncomingMessage,
  fail: (error: Error) => void,
  done: (text: string) => void,
): void {
  let text = '';
  response.setEncoding('utf8');
  response.on('data', (part: string) => (text += part));
  response.on('error', fail).on('end', () => done(text));
  // If the connection breaks during an answer, there may be a `close` event without an `error` event.
  response.on('close', () => {
    if (!response.complete) fail(new Error('the connection was closed'));
  });
}
