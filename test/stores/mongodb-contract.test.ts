import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mongodbLeaseStore } from 'stripelock/mongodb';
import { leaseStoreContract } from 'stripelock/testing';
import { mongodbClients } from '../support/mongodb-clients.mjs';
import { StandIn } from '../support/mongodb/stand-in.mjs';
import { realServer, reportNoServer } from './mongodb-setup.js';

// Tests run side by side on one server, each in a separate collection.
const framework = { describe: describe.concurrent, it, expect };
let collections = 0;

/** `url`: of the server, once it runs. */
function contractOn(server: string, url: () => string): void {
  for (const [library, connect] of Object.entries(mongodbClients)) {
    leaseStoreContract(framework, `MongoDB store on ${library}, three clients, ${server}`, async () => {
      const name = `contract_${process.pid}_${++collections}`;
      const clients = await Promise.all([1, 2, 3].map(() => connect(url())));
      const [store, ...peers] = clients.map(({ client }) => {
        // Many operations at once share an event loop with the stand-in, so an answer may come late.
        return mongodbLeaseStore({
          collection: client.db('stripelock_test').collection(name),
          timeout: 30_000,
        });
      });
      return {
        store: store!,
        peers,
        keepsInfo: true,
        reportsAbandonment: true,
        // The stand-in and all clients share an event loop.
        ttl: 1000,
        async dispose() {
          for (const made of [store!, ...peers]) await made.close();
          if (realServer !== undefined) await clients[0]!.client.db('stripelock_test').dropCollection(name);
          for (const { close } of clients) await close();
        },
      };
    });
  }
}

describe.each([true, false])('on the stand-in, as a replica set: %s', (isReplicaSet) => {
  let server: StandIn;
  beforeAll(async () => {
    server = await StandIn.start({ isReplicaSet });
  });
  afterAll(() => server.stop());
  contractOn(isReplicaSet ? 'replica set' : 'single server', () => server.url);
});

if (realServer === undefined) reportNoServer('the contract');
else contractOn('real server', () => realServer!);
