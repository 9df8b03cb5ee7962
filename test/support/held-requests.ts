/** Requests that are sent, and reach the server when the test lets them, whatever is sent after them. */
export class HeldRequests {
  /** Whether further requests are held. */
  holds = false;
  /** Whether further requests reach the server at once, and their answers are held. */
  holdsAnswers = false;
  #held: (() => Promise<void>)[] = [];
  readonly #underWay = new Set<Promise<unknown>>();

  /** The client, without the requests that are made by these methods while requests are held. */
  before<T extends object>(client: T, methods: readonly string[]): T {
    return new Proxy(client, {
      get: (target, name) => {
        const method: unknown = Reflect.get(target, name, target);
        if (typeof method !== 'function') return method;
        if (!methods.includes(String(name))) return method.bind(target) as unknown;
        return (...of: unknown[]): unknown =>
          this.#send(() => Reflect.apply(method, target, of) as Promise<unknown>);
      },
    });
  }

  /** The pool of `pg`, whose clients send statements in that way. */
  beforePool<T extends object>(pool: T): T {
    type Connected = (error: unknown, client: object | undefined) => void;
    const { connect } = pool as unknown as { connect: (this: T, connected: Connected) => void };
    return new Proxy(pool, {
      get: (target, name) => {
        if (name === 'connect') {
          return (connected: Connected): void => {
            connect.call(target, (error, client) =>
              connected(error, client && this.before(client, ['query'])),
            );
          };
        }
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === 'function' && name !== 'Client' ? (value.bind(target) as unknown) : value;
      },
    });
  }

  /** A pool with promises, whose connections send statements in that way. */
  beforePromisePool<T extends { getConnection(): Promise<object> }>(pool: T): T {
    return new Proxy(pool, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target);
        if (name === 'getConnection') {
          return async (): Promise<object> => this.before(await target.getConnection(), ['query']);
        }
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  }

  /** Whether a request is held now. */
  get isHolding(): boolean {
    return this.#held.length > 0;
  }

  /** Sends the held requests. Resolves when the server has answered them. */
  async letGo(): Promise<void> {
    this.holds = false;
    for (const send of this.#held.splice(0)) await send();
  }

  /** Resolves when every request that reached the server has its answer. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.allSettled(this.#underWay);
  }

  #send<T>(send: () => Promise<T>): Promise<T> {
    if (this.holdsAnswers) {
      const answer = send();
      // A failure is reported when the answer is let go.
      answer.catch(() => undefined);
      return new Promise((resolve, reject) => {
        this.#held.push(() => answer.then(resolve, reject));
      });
    }
    if (!this.holds) {
      const answer = send();
      this.#underWay.add(answer);
      const ended = (): unknown => this.#underWay.delete(answer);
      answer.then(ended, ended);
      return answer;
    }
    return new Promise((resolve, reject) => {
      this.#held.push(() => send().then(resolve, reject));
    });
  }
}
