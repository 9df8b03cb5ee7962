import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dynamodbLeaseStore } from 'stripelock/dynamodb';
import { leaseStoreContract, type StoreUnderTest } from 'stripelock/testing';
import { connectDynamodb, createTable, missingPackage, startDynalite } from '../support/dynamodb-clients.mjs';
import { StandIn } from '../support/dynamodb/stand-in.mjs';
import { RECIPES_ADVICE } from '../support/recipe-packages.mjs';
import { reportMissing } from '../support/requirements.js';

// Tests run side by side, each in a separate table.
const framework = { describe: describe.concurrent, it, expect };
const title = (where: string): string => `DynamoDB store, three clients, ${where}`;
const SKEW = 1000;
/** Milliseconds by which a lease may end late: a second for each of two answers, and the skew. */
const LATE = 2000 + SKEW;
let tables = 0;

type Store = ReturnType<typeof dynamodbLeaseStore>;

/** The store without the operations of several keys, which take transactions. */
function withoutTransactions(store: Store): Store {
  return new Proxy(store, {
    get(target, name) {
      if (/(?:All|Each)$/.test(String(name))) return undefined;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

/** Three stores on a new table of that server, and a function that deletes the table. */
async function storesOn(endpoint: string | undefined): Promise<[StoreUnderTest, () => Promise<unknown>]> {
  const table = `stripelock_test_${process.pid}_${++tables}`;
  const clients = [1, 2, 3].map(() => connectDynamodb(endpoint));
  await createTable(clients[0]!, table);
  const stores = clients.map((client) => dynamodbLeaseStore({ client, table, skew: SKEW, timeout: 30_000 }));
  const made: StoreUnderTest = {
    store: stores[0]!,
    peers: stores.slice(1),
    keepsInfo: true,
    reportsAbandonment: true,
    late: LATE,
    ttl: 1500,
    async dispose() {
      for (const store of stores) await store.close();
      for (const client of clients) client.destroy();
    },
  };
  return [made, () => clients[0]!.deleteTable({ TableName: table })];
}

if (missingPackage === undefined) {
  leaseStoreContract(framework, title('on the stand-in'), async () => {
    const server = await StandIn.start();
    let now = Date.now();
    server.now = () => now;
    const clients = [1, 2, 3].map(() => connectDynamodb(server.url));
    const stores = clients.map((client) => dynamodbLeaseStore({ client, skew: SKEW, timeout: 30_000 }));
    return {
      store: stores[0]!,
      peers: stores.slice(1),
      keepsInfo: true,
      reportsAbandonment: true,
      late: LATE,
      advance: (milliseconds) => void (now += milliseconds),
      async dispose() {
        for (const store of stores) await store.close();
        for (const client of clients) client.destroy();
        await server.stop();
      },
    };
  });

  describe('on dynalite', () => {
    let server: Awaited<ReturnType<typeof startDynalite>>;
    beforeAll(async () => {
      server = await startDynalite();
    });
    afterAll(() => server.stop());
    leaseStoreContract(framework, title('on dynalite, one key at a time'), async () => {
      const [made] = await storesOn(server.url);
      const [store, ...peers] = [made.store, ...made.peers!].map((one) => withoutTransactions(one as Store));
      return { ...made, store: store!, peers };
    });
  });
} else {
  reportMissing('the DynamoDB store', missingPackage, RECIPES_ADVICE);
}

if (process.env['STRIPELOCK_DYNAMODB'] === '1') {
  leaseStoreContract(framework, title('on the service itself'), async () => {
    const [made, deleteTable] = await storesOn(undefined);
    return {
      ...made,
      async dispose() {
        await deleteTable();
        await made.dispose!();
      },
    };
  });
} else {
  // CI has no account, so this is not a failure there.
  describe('the DynamoDB store on the service itself', () => {
    it('needs STRIPELOCK_DYNAMODB', ({ skip }) => {
      skip('NOT TESTED on DynamoDB itself. STRIPELOCK_DYNAMODB is not 1; see CONTRIBUTING.md.');
    });
  });
}
