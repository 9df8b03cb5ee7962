/** Requests that are sent, and reach the server when the test lets them, whatever is sent after them. */
export class HeldRequests {
  /** Whether further requests are held. */
  holds = false;
  #held: (() => Promise<void>)[] = [];

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

  /** What was held reaches the server now. Resolves when it has answered. */
  async letGo(): Promise<void> {
    this.holds = false;
    for (const send of this.#held.splice(0)) await send();
  }

  #send<T>(send: () => Promise<T>): Promise<T> {
    if (!this.holds) return send();
    return new Promise((resolve, reject) => {
      this.#held.push(() => send().then(resolve, reject));
    });
  }
}
