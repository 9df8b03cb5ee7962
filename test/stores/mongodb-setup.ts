import { afterEach, beforeEach, describe, it, onTestFinished } from 'vitest';
import type { Collection, MongoClient } from 'mongodb';
import { mongodbLeaseStore, type MongodbCollection, type MongodbLeaseStoreOptions } from 'stripelock/mongodb';
import { mongodbClients } from '../support/mongodb-clients.mjs';
import { StandIn } from '../support/mongodb/stand-in.mjs';

export type MongodbStore = ReturnType<typeof mongodbLeaseStore>;
type Options = Partial<Pick<MongodbLeaseStoreOptions, 'timeout' | 'drift' | 'clientModule'>>;

/** The URL of a real server to test on, if there is one. */
export const realServer = process.env['STRIPELOCK_MONGODB_URL'];

/** Both versions of the driver. */
export const mongodbDrivers = Object.keys(mongodbClients) as (keyof typeof mongodbClients)[];

/** Polls only when the test says so. */
export const PATIENT = { initial: 20_000, max: 20_000, jitter: 0 };

/**
 * Skips a test that needs a real server, plainly. Where CI runs there is none, so there it is not a failure: the stand-in is
 * tested everywhere.
 */
export function reportNoServer(what: string): void {
  describe('the MongoDB store on a real server', () => {
    it(`${what}: needs STRIPELOCK_MONGODB_URL`, ({ skip }) => {
      skip(`NOT TESTED on a real server: ${what}. STRIPELOCK_MONGODB_URL names none; see CONTRIBUTING.md.`);
    });
  });
}

/** Shared by the tests of a driver: for each test a stand-in, a client and a store. */
export class MongodbScene {
  server!: StandIn;
  collection!: Collection;
  client!: MongoClient;
  store!: MongodbStore;
  readonly #driver: keyof typeof mongodbClients;

  /** Registers the hooks. To be called within `describe`. */
  constructor(driver: keyof typeof mongodbClients, isReplicaSet = true) {
    this.#driver = driver;
    let close: () => Promise<void>;
    beforeEach(async () => {
      this.server = await StandIn.start({ isReplicaSet });
      ({ client: this.client, close } = await this.connect());
      this.collection = this.client.db('test').collection('leases');
      this.store = this.storeWith();
    });
    afterEach(async () => {
      await close();
      await this.server.stop();
    });
  }

  /** Another client. */
  connect(options: object = {}): Promise<{ client: MongoClient; close: () => Promise<void> }> {
    return mongodbClients[this.#driver](this.server.url, options);
  }

  /** Another store, in the same collection if no other is given. Ends with the test. */
  storeWith(options: Options = {}, collection: MongodbCollection = this.collection): MongodbStore {
    // A test that is not about the time limit must not fail by it on a busy machine.
    const store = mongodbLeaseStore({ collection, timeout: 30_000, ...options });
    onTestFinished(() => store.close());
    return store;
  }

  /** A store on another client. Both end with the test. */
  async storeOnAnotherClient(options: Options = {}, clientOptions: object = {}): Promise<MongodbStore> {
    const { client, close } = await this.connect(clientOptions);
    const store = this.storeWith(options, client.db('test').collection('leases'));
    onTestFinished(async () => {
      await store.close();
      await close();
    });
    return store;
  }

  /** The commands that the store has sent since the last call: their names. */
  sent(): string[] {
    return this.server.log.splice(0).map(({ name }) => name);
  }
}
