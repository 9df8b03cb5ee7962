import { Replies } from '../../lease/contract/replies.js';
import { Operation, Requests } from '../requests.js';
import { Endpoint } from './endpoint.js';
import {
  EtcdFailure,
  isAuthDisabled,
  messagesIn,
  permanent,
  TITLE,
  verdictOn,
  type Message,
} from './gateway.js';
import type { EtcdCredentials, EtcdSettings } from './options.js';

/** Milliseconds to wait, after all servers failed, before they are tried again. */
const PAUSE = 20;
/**
 * If there are several servers, the maximum time in milliseconds to wait for the answer of one server. If
 * half of the operation's timeout is shorter, that half is the limit, so that a second server can still
 * answer in time.
 */
const LONGEST_ATTEMPT = 2000;
const LATE = 'there was no answer in time';
/** The maximum number of times that a request is repeated with a new authentication token. */
const MOST_REFUSALS = 3;

/** The servers' answer to a request. */
export interface Answer {
  readonly message: Message;
  /** All messages, if the answer is a stream. */
  readonly messages: readonly Message[];
  /** True if an earlier copy of the same request may have been executed, or may still be executed. */
  readonly again: boolean;
}

/**
 * The servers of a cluster. A request goes to the server that answered last, and after a failure to the next
 * server.
 */
export class Cluster {
  readonly #endpoints: readonly Endpoint[];
  readonly #credentials: EtcdCredentials | undefined;
  /** Runs requests that no operation of the store started. */
  readonly requests: Requests;
  /** Limits the time for each server. Undefined if there is only one server. */
  readonly #attempts: Replies | undefined;
  /**
   * The authentication token, requested when needed. Resolves to undefined if authentication is disabled on
   * the servers.
   */
  #token: Promise<string | undefined> | undefined;
  #current: number;
  #closed = false;

  constructor({ urls, credentials, tls, timeout }: EtcdSettings) {
    this.#endpoints = urls.map((url) => new Endpoint(url, tls));
    this.#credentials = credentials;
    this.requests = new Requests({ title: TITLE, permanent }, timeout);
    const limit = Math.min(timeout / 2, LONGEST_ATTEMPT);
    this.#attempts = urls.length > 1 ? new Replies(limit, 'an etcd server') : undefined;
    // Random, so that clients start at different servers.
    this.#current = Math.floor(Math.random() * urls.length);
  }

  /**
   * Sends a request to one server after another, until one answers or the operation ends. Rejects with an
   * EtcdFailure.
   */
  call(operation: Operation, path: string, body: object | string): Promise<Answer> {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    return this.#ask(operation, path, text, this.#credentials);
  }

  /**
   * Opens a watch on the current server. If the watch ends by itself, `ended` is called once. The returned
   * function closes the watch.
   */
  watch(request: object, message: (message: Message) => void, ended: () => void): () => void {
    const at = this.#current;
    const token = this.#tokenOf(this.#credentials);
    let end: (() => void) | undefined;
    let open = true;
    const over = (): void => {
      if (!open) return;
      open = false;
      end?.();
      // The token may have expired, or the server may be down. So the next request uses a new token and
      // another server.
      if (this.#token === token) this.#token = undefined;
      this.#leave(at);
      ended();
    };
    const line = (text: string): void => {
      try {
        for (const one of messagesIn(text)) message(one);
      } catch {
        over();
      }
    };
    Promise.resolve(token).then((known) => {
      if (open) end = this.#endpoints[at]!.watch(JSON.stringify(request), known, line, over);
    }, over);
    return () => {
      open = false;
      end?.();
    };
  }

  close(): void {
    this.#closed = true;
    for (const endpoint of this.#endpoints) endpoint.close();
  }

  async #ask(
    operation: Operation,
    path: string,
    text: string,
    credentials: EtcdCredentials | undefined,
  ): Promise<Answer> {
    const { length } = this.#endpoints;
    let again = false;
    let refusals = 0;
    for (let sends = 1; ; sends++) {
      const at = this.#current;
      const token = this.#tokenOf(credentials);
      try {
        const known = await token;
        const messages = await this.#post(operation, at, path, text, known);
        return { message: messages[0] ?? {}, messages, again };
      } catch (error) {
        if (!(error instanceof EtcdFailure)) throw error;
        const failure: EtcdFailure = again ? error.afterUncertain() : error;
        const verdict = verdictOn(error);
        if (verdict === 'final' || operation.isLate || this.#closed) throw failure;
        again = failure.uncertain;
        operation.failure = error;
        if (verdict === 'authenticate') {
          if (token === undefined || ++refusals > MOST_REFUSALS) throw failure;
          if (this.#token === token) this.#token = undefined;
          continue;
        }
        this.#leave(at);
        if (sends % length === 0) await operation.pause(PAUSE);
      }
    }
  }

  async #post(
    operation: Operation,
    at: number,
    path: string,
    text: string,
    token: string | undefined,
  ): Promise<Message[]> {
    if (operation.isLate) throw new EtcdFailure(LATE, undefined, false);
    let abort: (reason: Error) => void = () => undefined;
    const sent = this.#endpoints[at]!.post(path, text, token, (end) => (abort = end));
    const forget = operation.onLate(() => abort(new Error(LATE)));
    const awaited = this.#attempts?.expect(abort);
    try {
      return messagesIn(await sent);
    } finally {
      forget();
      if (awaited) this.#attempts!.arrived(awaited);
    }
  }

  /** Switches to the next server, unless another request has already done so. */
  #leave(at: number): void {
    if (this.#current === at) this.#current = (at + 1) % this.#endpoints.length;
  }

  #tokenOf(credentials: EtcdCredentials | undefined): Promise<string | undefined> | undefined {
    return credentials && (this.#token ??= this.#authenticate(credentials));
  }

  /** All requests share one token, because creating a token is expensive for the servers. */
  #authenticate({ username, password }: EtcdCredentials): Promise<string | undefined> {
    const operation = new Operation(false);
    const token = this.requests.run(operation, async () => {
      try {
        const text = JSON.stringify({ name: username, password });
        return (await this.#ask(operation, 'auth/authenticate', text, undefined)).message.token;
      } catch (error) {
        if (isAuthDisabled(error)) return undefined;
        throw error;
      }
    });
    token.catch(() => {
      if (this.#token === token) this.#token = undefined;
    });
    return token;
  }
}
