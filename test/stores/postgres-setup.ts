import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { postgresLeaseStore, type PostgresLeaseStoreOptions } from 'stripelock/postgres';
import { postgresClients } from '../support/postgres-clients.mjs';
import { hasPostgres, PostgresServer } from '../support/postgres-server.mjs';

export type PostgresStore = ReturnType<typeof postgresLeaseStore>;

/** The client libraries to test with. Without a server the list is empty, which the contract tests report. */
export const postgresLibraries = hasPostgres
  ? (Object.keys(postgresClients) as (keyof typeof postgresClients)[])
  : [];

/** Polls only when the test says so. */
export const PATIENT = { initial: 20_000, max: 20_000, jitter: 0 };

let tables = 0;

/** Shared by tests: one server, and for each test separate tables. */
export class PostgresScene {
  server!: PostgresServer;
  readonly #settings: readonly string[];

  /** Registers the hooks. To be called within `describe`. `settings`: of the server. */
  constructor(...settings: string[]) {
    this.#settings = settings;
    beforeAll(async () => {
      this.server = await PostgresServer.start(...this.#settings);
    });
    afterAll(() => this.server.stop());
  }

  newTable(): string {
    return `test_${++tables}`;
  }

  /** A client, which ends with the test. `port`: of the server, if no other is given. */
  async connect(
    library: keyof typeof postgresClients = 'pg',
    port = this.server.port,
    options = {},
  ): Promise<object> {
    const { client, close } = await postgresClients[library](port, options);
    onTestFinished(() => void close());
    return client;
  }

  /** A store, which ends with the test. A test that is not about the time limit must not fail by it on a busy machine. */
  storeOn(client: object, options: Partial<PostgresLeaseStoreOptions> = {}): PostgresStore {
    const store = postgresLeaseStore({ timeout: 30_000, ...options, client } as PostgresLeaseStoreOptions);
    onTestFinished(() => store.close());
    return store;
  }
}
