import { afterAll, afterEach, beforeAll, beforeEach, onTestFinished } from 'vitest';
import { redisLeaseStore, type RedisLeaseStoreOptions } from 'stripelock/redis';
import { redisClients } from '../support/redis-clients.mjs';
import { redisCommand, RedisServer } from '../support/redis-server.mjs';

export type RedisStore = ReturnType<typeof redisLeaseStore>;

export interface Connection {
  client: object;
  close: () => void;
}

/** The client libraries to test with. Without a server the list is empty, which the contract tests report. */
export const redisLibraries = redisCommand === undefined ? [] : Object.keys(redisClients);

/** How to connect a client of that library. */
export function connectorOf(library: string): (port: number) => Promise<Connection> {
  return redisClients[library as keyof typeof redisClients];
}

/** Polls only when the test says so. */
export const PATIENT = { initial: 20_000, max: 20_000, jitter: 0 };

/** Shared by the tests of a library: one server, and for each test an empty database, a client and a store. */
export class RedisScene {
  server!: RedisServer;
  client!: object;
  store!: RedisStore;
  readonly #connect: (port: number) => Promise<Connection>;

  /** Registers the hooks. To be called within `describe`. */
  constructor(library: string) {
    this.#connect = connectorOf(library);
    let connection: Connection;
    beforeAll(async () => {
      this.server = await RedisServer.start();
    });
    afterAll(() => this.server.stop());
    beforeEach(async () => {
      await this.server.command('FLUSHALL');
      connection = await this.#connect(this.server.port);
      this.client = connection.client;
      this.store = this.storeWith();
    });
    afterEach(() => connection.close());
  }

  /** Another client. Ends with the test. */
  async connect(): Promise<Connection> {
    const connection = await this.#connect(this.server.port);
    onTestFinished(() => connection.close());
    return connection;
  }

  /** Another store, on the same client if the options name no other. Ends with the test. */
  storeWith(options: Partial<RedisLeaseStoreOptions> = {}): RedisStore {
    // A test that is not about the time limit must not fail by it on a busy machine.
    const store = redisLeaseStore({ client: this.client, timeout: 30_000, ...options });
    onTestFinished(() => store.close());
    return store;
  }

  /** The server's reply, as text. */
  command(...words: (string | number | bigint)[]): Promise<string> {
    return this.server.command(...words);
  }

  /** Whether anybody waits for `key`: ':1' or ':0'. */
  waits(): Promise<string> {
    return this.command('EXISTS', 'stripelock:{108}?key');
  }
}
