// On the stand-in of DynamoDB, which keeps its data when it is killed. Its answers have whole seconds, so a lease ends up to
// two seconds late.

import { setTimeout as delay } from 'node:timers/promises';
import { dynamodbLeaseStore } from 'stripelock/dynamodb';
import { connectDynamodb, missingPackage } from '../../../support/dynamodb-clients.mjs';
import { RECIPES_ADVICE } from '../../../support/recipe-packages.mjs';
import { StandInServer } from '../../../support/stand-in-server.mjs';
import { WHILE } from '../clock.mjs';
import {
  connectionsAreCut,
  serverIsKilled,
  serverIsPaused,
  pauseForRandomTime,
  somethingElseIsAtTheKey,
} from '../server-scenarios.mjs';

/**
 * @typedef {import('../../../support/dynamodb-clients.mjs').TestClient} TestClient
 * @typedef {Record<string, { S?: string, N?: string }>} Item
 */

const TABLE = 'stripelock_leases';
/** Keeps track of a broken store's counters. */
const COUNTERS = 'counters';
const SECOND = 1000;
/** Milliseconds, the default of the store. */
const SKEW = 1000;
/** Milliseconds in which what a scenario prepares must be there, and every lease that was left must end, on a busy machine. */
const COMES_WITHIN = 20_000;

const THROTTLED = { type: 'ProvisionedThroughputExceededException', status: 400, executes: false };
const FAILED = { type: 'InternalServerError', status: 500, executes: false };
const FAILED_AFTERWARDS = { ...FAILED, executes: true };

/** @param {number} port */
const urlOf = (port) => `http://127.0.0.1:${port}`;

/**
 * Changes an item in one step.
 *
 * @param {TestClient} client
 * @param {string} table
 * @param {string} name
 * @param {(item: Item | undefined) => Item | undefined} change Undefined: leaves it as it is.
 */
async function change(client, table, name, change) {
  for (;;) {
    const input = { TableName: table, Key: { name: { S: name } }, ConsistentRead: true };
    const { Item: before } = /** @type {{ Item?: Item }} */ (
      await client.getItem(/** @type {never} */ (input))
    );
    const after = change(before);
    if (after === undefined) return undefined;
    const version = before?.['version'];
    const put = {
      TableName: table,
      Item: { name: { S: name }, ...after },
      ExpressionAttributeNames: { '#version': 'version' },
      ConditionExpression: version === undefined ? 'attribute_not_exists(#version)' : '#version = :before',
      ...(version && { ExpressionAttributeValues: { ':before': version } }),
    };
    try {
      await client.putItem(/** @type {never} */ (put));
      return after;
    } catch (error) {
      if (/** @type {Error} */ (error).name !== 'ConditionalCheckFailedException') throw error;
    }
  }
}

const newVersion = () => ({ version: { S: crypto.randomUUID() } });

/** @param {Item} item */
const freed = ({ owner: _owner, ...rest }) => ({ ...rest, ...newVersion() });

class DynamodbBackend {
  /** @type {(() => unknown)[]} */
  #closing = [];
  /** The `skew` of all stores. */
  skew = 0;

  /** @param {StandInServer} server */
  constructor(server) {
    this.server = server;
    this.client = connectDynamodb(urlOf(server.port));
    this.#closing.push(() => this.client.destroy());
  }

  get port() {
    return this.server.port;
  }

  /** The server behind all proxies. */
  get place() {
    return { server: this.server.port, skew: this.skew };
  }

  connect() {
    const store = dynamodbLeaseStore({ client: this.client, skew: this.skew, timeout: COMES_WITHIN });
    this.#closing.push(() => store.close());
    return store;
  }

  /**
   * Tokens rise across a loss if the clock is past the last token by a second then, and if no request was sent before the
   * loss and comes after it. So the server is away for longer than that.
   */
  async forget() {
    await this.server.kill();
    this.server.loseData();
    await delay(2 * SECOND);
    await this.server.start();
  }

  /** Items remain for their tokens, without a holder. */
  async leftovers() {
    const store = this.connect();
    const until = performance.now() + COMES_WITHIN;
    for (;;) {
      const left = await store.list();
      if (left.length === 0 || performance.now() > until)
        return left.map(({ key }) => `${key} is still held`);
      await delay(100);
    }
  }

  async stop() {
    for (const close of this.#closing.reverse()) await close();
    await this.server.stop();
  }
}

/**
 * @param {TestClient} client
 * @returns {import('../store-faults.mjs').Backdoor}
 */
const backdoor = (client) => ({
  async remove(key) {
    const after = await change(client, TABLE, key, (item) => (item?.['owner'] ? freed(item) : undefined));
    return after !== undefined;
  },
  async count(key) {
    const after = await change(client, COUNTERS, key, (item) => {
      return { ...newVersion(), value: { N: String(Number(item?.['value']?.N ?? 0) + 1) } };
    });
    return BigInt(/** @type {Item} */ (after)['value'].N ?? 0);
  },
});

/** @type {import('../store-faults.mjs').StoreFaults<DynamodbBackend>} */
export default {
  title: 'the DynamoDB store, on a stand-in of the service,',
  missing: missingPackage === undefined ? undefined : { what: missingPackage, advice: RECIPES_ADVICE },
  reopens: true,
  readsFirst: true,
  // Just below a whole second, so that the service keeps a lease for little longer than its holder does.
  ttl: 900,

  start: async () => new DynamodbBackend(await StandInServer.start('dynamodb')),

  async open({ port, place, timeout, background }) {
    const { server, skew } = /** @type {DynamodbBackend['place']} */ (place);
    const client = connectDynamodb(urlOf(port));
    const clientModule = new URL('../../../workers/dynamodb-client.mjs', import.meta.url);
    clientModule.searchParams.set('endpoint', urlOf(port));
    /** @type {TestClient[]} */
    const clients = [client];
    return {
      store: dynamodbLeaseStore({ client, skew, timeout, ...(background && { clientModule }) }),
      backdoor: () => {
        const aside = connectDynamodb(urlOf(server));
        clients.push(aside);
        return backdoor(aside);
      },
      close: () => clients.forEach((one) => one.destroy()),
    };
  },

  scenarios: {
    'the server is killed, and comes back with its data': (world, { server }) =>
      serverIsKilled(world, server),

    'the server is paused': (world, { server }) => serverIsPaused(world, server),

    'connections are cut': connectionsAreCut,

    async 'requests are throttled, and fail before and after they are executed'(world, { server }) {
      await world.start(3);
      for (const failing of [[THROTTLED], [FAILED_AFTERWARDS], [FAILED]]) {
        await world.nextHolder();
        await server.set({ failing });
        await delay(1.2 * world.ttl);
        await server.set({ failing: [] });
        await world.expectProgress();
      }
      await server.set({ failing: [null, null, THROTTLED, null, FAILED_AFTERWARDS, null, null, FAILED] });
      await delay(2 * WHILE);
      await world.expectProgress();
    },

    async 'the clocks of its machines differ by the skew, and holders are stopped beyond their TTL'(
      world,
      backend,
    ) {
      await backend.server.set({ spread: SKEW });
      backend.skew = SKEW;
      await world.start(3);
      for (let i = 0; i < 2; i++) {
        const stopped = await world.nextHolder();
        stopped?.pause();
        await world.expectProgress(world.holders.filter((holder) => holder !== stopped));
        stopped?.resume();
        await delay(WHILE / 2);
      }
      await world.expectProgress();
    },

    'something else is at the key': (world, backend) =>
      somethingElseIsAtTheKey(world, backend, async () => {
        const { client } = backend;
        /** @type {Item} */
        let lease = {};
        await world.lose(() =>
          change(client, TABLE, 'key', (item = {}) => {
            lease = item;
            return { text: { S: 'something else' } };
          }),
        );
        return () => change(client, TABLE, 'key', () => freed(lease));
      }),
  },

  faults: [
    (world, { server }) => pauseForRandomTime(world, server),
    async (_world, { server }) => {
      await server.kill();
      await server.start();
    },
    async (_world, { server }) => {
      await server.set({ failing: [null, THROTTLED, null, FAILED_AFTERWARDS, FAILED] });
      await delay(WHILE / 2);
      await server.set({ failing: [] });
    },
  ],
};
