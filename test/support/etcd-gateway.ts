import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';

/** The server's answer, as text. */
export interface GatewayAnswer {
  status: number;
  text: string;
}

/** A request that passes. */
export interface Passing {
  /** Below the gateway's root. */
  readonly path: string;
  readonly body: string;
  /** Asks the server; may be called late, or twice. */
  readonly forward: () => Promise<GatewayAnswer>;
}

/** The answer; `'cut'` ends the connection without one. */
export type Rule = (request: Passing) => Promise<GatewayAnswer | 'cut'>;

/** Stands before the gateway of an etcd server, writes down what is asked, and does what a test wants to the answers. */
export class EtcdGateway {
  /** The paths of all requests but watches, in the order in which they came. */
  readonly asked: string[] = [];
  /** How many watches were begun. */
  watches = 0;
  #rule: Rule = ({ forward }) => forward();
  readonly #target: number;
  readonly #server: http.Server;

  private constructor(target: number) {
    this.#target = target;
    this.#server = http.createServer((request, response) => void this.#pass(request, response));
  }

  static async before(port: number): Promise<EtcdGateway> {
    const gateway = new EtcdGateway(port);
    gateway.#server.listen(0, '127.0.0.1');
    await once(gateway.#server, 'listening');
    return gateway;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** From now on requests but watches go by this. */
  set rule(rule: Rule) {
    this.#rule = rule;
  }

  /** The next request at the path goes by the rule, all others pass. Resolves when it came. */
  once(path: string, rule: Rule): Promise<void> {
    return new Promise((came) => {
      let seen = false;
      this.#rule = (request) => {
        if (seen || request.path !== path) return request.forward();
        seen = true;
        came();
        return rule(request);
      };
    });
  }

  /** Ends all connections, including the watches. */
  cut(): void {
    this.#server.closeAllConnections();
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #pass(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    request.on('error', () => undefined);
    const path = request.url!.replace('/v3/', '');
    const body = (
      await request
        .setEncoding('utf8')
        .toArray()
        .catch(() => [])
    ).join('');
    const { authorization } = request.headers;
    if (path === 'watch') {
      this.watches++;
      this.#stream(body, authorization, response);
      return;
    }
    this.asked.push(path);
    const forward = (): Promise<GatewayAnswer> => this.#forward(path, body, authorization);
    const answer = await this.#rule({ path, body, forward }).catch(() => 'cut' as const);
    if (answer === 'cut') response.destroy();
    else response.writeHead(answer.status).end(answer.text);
  }

  async #forward(path: string, body: string, authorization: string | undefined): Promise<GatewayAnswer> {
    const response = await fetch(`http://127.0.0.1:${this.#target}/v3/${path}`, {
      method: 'POST',
      body,
      headers: authorization === undefined ? {} : { authorization },
    });
    return { status: response.status, text: await response.text() };
  }

  #stream(body: string, authorization: string | undefined, response: http.ServerResponse): void {
    const headers = authorization === undefined ? {} : { authorization };
    const options = { port: this.#target, host: '127.0.0.1', path: '/v3/watch', method: 'POST', headers };
    const upstream = http.request(options, (answer) => {
      response.writeHead(answer.statusCode!);
      answer.on('error', () => response.destroy());
      answer.pipe(response);
    });
    upstream.on('error', () => response.destroy());
    response.on('close', () => upstream.destroy());
    upstream.end(body);
  }
}
