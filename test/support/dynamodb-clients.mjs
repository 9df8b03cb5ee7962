import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { isInstalled, loadPackage } from './recipe-packages.mjs';

const SDK = '@aws-sdk/client-dynamodb';
// Its versions of 2027 will need Node 22. Each process would say so.
process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] = 'true';

/** The name of a package that these tests lack; undefined if all are installed. */
export const missingPackage = [SDK, 'dynalite'].find((name) => !isInstalled(name));

/** The credentials of every client of these tests. */
export const SECRET_KEY = 's3cret';
const credentials = { accessKeyId: 'test', secretAccessKey: SECRET_KEY };

/**
 * The part of a `DynamoDB` that these tests use. Its package may be missing.
 *
 * @typedef {object} Tables
 * @property {(input: object) => Promise<unknown>} createTable
 * @property {(input: object) => Promise<unknown>} deleteTable
 * @property {(input: object) => Promise<{ Table: { TableStatus: string } }>} describeTable
 * @property {() => void} destroy
 *
 * @typedef {import('stripelock/dynamodb').DynamodbClient & Tables} TestClient
 */

/**
 * @param {string | undefined} endpoint Undefined for the service itself.
 * @param {object} [options]
 * @returns {TestClient}
 */
export function connectDynamodb(endpoint, options = {}) {
  const { DynamoDB } = loadPackage(SDK);
  return new DynamoDB(
    endpoint === undefined ? options : { region: 'local', endpoint, credentials, ...options },
  );
}

/** A `DynamoDBClient`, which has no methods. @param {string} endpoint */
export function connectWithoutMethods(endpoint) {
  const { DynamoDBClient } = loadPackage(SDK);
  return new DynamoDBClient({ region: 'local', endpoint, credentials });
}

/** @param {TestClient} client @param {string} name */
export async function createTable(client, name) {
  await client.createTable({
    TableName: name,
    KeySchema: [{ AttributeName: 'name', KeyType: 'HASH' }],
    AttributeDefinitions: [{ AttributeName: 'name', AttributeType: 'S' }],
    BillingMode: 'PAY_PER_REQUEST',
  });
  for (;;) {
    const { Table } = await client.describeTable({ TableName: name });
    if (Table.TableStatus === 'ACTIVE') return;
    await delay(20);
  }
}

/** Another implementation of DynamoDB, which has no transactions. */
export async function startDynalite() {
  const server = loadPackage('dynalite')({ createTableMs: 1 });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    stop: () => new Promise((resolve) => server.close(resolve)),
  };
}
