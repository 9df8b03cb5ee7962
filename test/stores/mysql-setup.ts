import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { mysqlLeaseStore, type MysqlLeaseStoreOptions } from 'stripelock/mysql';
import { mysqlClients } from '../support/mysql-clients.mjs';
import { hasMysql, MysqlServer } from '../support/mysql-server.mjs';

export type MysqlStore = ReturnType<typeof mysqlLeaseStore>;
export type MysqlLibrary = keyof typeof mysqlClients;

/** The clients to test with. Without a server the list is empty, which the contract tests report. */
export const mysqlLibraries = hasMysql ? (Object.keys(mysqlClients) as MysqlLibrary[]) : [];
export const mysqlPools = mysqlLibraries.filter((name) => name.endsWith('pool'));
export const mysqlConnections = mysqlLibraries.filter((name) => name.endsWith('connection'));

/** Polls only when the test says so. */
export const PATIENT = { initial: 20_000, max: 20_000, jitter: 0 };

let tables = 0;

/** Shared by tests: one server, and for each test separate tables. */
export class MysqlScene {
  server!: MysqlServer;
  readonly #options: readonly string[];

  /** Registers the hooks. To be called within `describe`. `options`: of the server. */
  constructor(...options: string[]) {
    this.#options = options;
    beforeAll(async () => {
      this.server = await MysqlServer.start(...this.#options);
    });
    afterAll(() => this.server.stop());
  }

  newTable(): string {
    return `test_${++tables}`;
  }

  /** A URL of the server for a user, at the port of a proxy if one is given. */
  urlFor({ user = 'test:test', port = this.server.port, database = 'test' } = {}): string {
    return `mysql://${user}@127.0.0.1:${port}/${database}`;
  }

  /** A client, which ends with the test. */
  async connect(
    library: MysqlLibrary = 'mysql2 pool',
    url = this.urlFor(),
    options: { max?: number; acquireTimeout?: number } = {},
  ): Promise<object> {
    const { client, close } = await mysqlClients[library](url, options);
    onTestFinished(() => {
      // It may have ended, or wait for a server that never answers.
      void Promise.resolve(close()).catch(() => undefined);
    });
    return client;
  }

  /** A store, which ends with the test. A test that is not about the time limit must not fail by it on a busy machine. */
  storeOn(client: object, options: Partial<MysqlLeaseStoreOptions> = {}): MysqlStore {
    const store = mysqlLeaseStore({ timeout: 30_000, ...options, client } as MysqlLeaseStoreOptions);
    onTestFinished(() => store.close());
    return store;
  }

  /** A store on a separate client. */
  async store(library: MysqlLibrary, options: Partial<MysqlLeaseStoreOptions> = {}): Promise<MysqlStore> {
    return this.storeOn(await this.connect(library), options);
  }
}
