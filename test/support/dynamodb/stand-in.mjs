import { once } from 'node:events';
import http from 'node:http';

/** @typedef {Record<string, { S?: string, N?: string, BOOL?: boolean }>} Item */
/** @typedef {Record<string, any>} Input */

/** Characters and bytes of the service's limits. */
const LONGEST_KEY = 2048;
const LONGEST_ITEM = 400 * 1024;
const MOST_DIGITS = 38;
const MOST_IN_TRANSACTION = 100;

const PUT = [
  'TableName',
  'Item',
  'ConditionExpression',
  'ExpressionAttributeNames',
  'ExpressionAttributeValues',
];

class Refusal extends Error {
  /**
   * @param {string} type
   * @param {string} message
   * @param {object} [fields]
   */
  constructor(type, message, fields = {}) {
    super(message);
    this.type = type;
    this.fields = fields;
  }
}

/** @param {string} message */
const invalid = (message) => new Refusal('ValidationException', message);

/**
 * A stand-in for DynamoDB that knows the requests of the lease store: GetItem, PutItem, TransactWriteItems and Scan, with the
 * two conditions on the version of an item. It refuses all others. Each request is one step. Time is what {@link StandIn.now}
 * returns, and is seen only in the `Date` header of answers.
 */
export class StandIn {
  /** Whether answers have a `Date` header. */
  hasDate = true;
  /** Items in an answer to Scan. */
  pageSize = 50;
  /** The names of the requests that arrived. @type {string[]} */
  requests = [];
  /** Milliseconds. */
  now = () => Date.now();
  /** Items by name. @type {Map<string, Map<string, Item>>} */
  #tables = new Map();
  /** The inputs of executed transactions, by token. @type {Map<string, string>} */
  #transactions = new Map();
  /** The request whose next answer will be lost. @type {string | undefined} */
  #lost;
  /** @type {() => unknown} */
  #onLost = () => undefined;
  #server = http.createServer((request, response) => void this.#answer(request, response));

  /** @param {readonly string[]} [tables] */
  static async start(tables = ['stripelock_leases']) {
    const standIn = new StandIn();
    for (const table of tables) standIn.#tables.set(table, new Map());
    standIn.#server.listen(0, '127.0.0.1');
    await once(standIn.#server, 'listening');
    return standIn;
  }

  get url() {
    const { port } = /** @type {import('node:net').AddressInfo} */ (this.#server.address());
    return `http://127.0.0.1:${port}`;
  }

  /** The items of a table, by name. */
  items(table = 'stripelock_leases') {
    const items = this.#tables.get(table);
    if (items === undefined) throw new Refusal('ResourceNotFoundException', 'Requested resource not found');
    return items;
  }

  /**
   * Executes the next request of that name, calls `then`, and cuts the connection in place of an answer.
   *
   * @param {string} operation
   * @param {() => unknown} [then]
   */
  losesNext(operation, then = () => undefined) {
    this.#lost = operation;
    this.#onLost = then;
  }

  async stop() {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  /**
   * @param {http.IncomingMessage} request
   * @param {http.ServerResponse} response
   */
  async #answer(request, response) {
    const parts = [];
    for await (const part of request) parts.push(part);
    const operation = String(request.headers['x-amz-target']).replace('DynamoDB_20120810.', '');
    this.requests.push(operation);
    const { status, body } = this.#replyTo(operation, Buffer.concat(parts).toString());
    if (operation === this.#lost) {
      this.#lost = undefined;
      await this.#onLost();
      request.socket.destroy();
      return;
    }
    response.sendDate = false;
    const date = this.hasDate ? { date: new Date(this.now()).toUTCString() } : {};
    response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0', ...date });
    response.end(JSON.stringify(body));
  }

  /**
   * @param {string} operation
   * @param {string} text
   */
  #replyTo(operation, text) {
    try {
      const input = JSON.parse(text);
      if (operation === 'GetItem') return { status: 200, body: this.#getItem(input) };
      if (operation === 'PutItem') return { status: 200, body: this.#putItem(input) };
      if (operation === 'TransactWriteItems') return { status: 200, body: this.#transact(input) };
      if (operation === 'Scan') return { status: 200, body: this.#scan(input) };
      throw invalid(`the stand-in does not know ${operation}`);
    } catch (error) {
      const { type = 'InternalServerError', message, fields } = /** @type {Refusal} */ (error);
      const body = { __type: `com.amazonaws.dynamodb.v20120810#${type}`, message, ...fields };
      return { status: 400, body };
    }
  }

  /** @param {Input} input */
  #getItem(input) {
    checkFields(input, ['TableName', 'Key', 'ConsistentRead']);
    if (input['ConsistentRead'] !== true) throw invalid('a lease needs a consistent read');
    checkFields(input['Key'], ['name']);
    const item = this.items(input['TableName']).get(nameIn(input['Key']));
    return item === undefined ? {} : { Item: item };
  }

  /** @param {Input} input */
  #putItem(input) {
    const put = this.#prepared(input);
    if (!put.applies) throw new Refusal('ConditionalCheckFailedException', 'The conditional request failed');
    put.write();
    return {};
  }

  /** @param {Input} input */
  #transact(input) {
    checkFields(input, ['TransactItems', 'ClientRequestToken']);
    const { TransactItems: changes, ClientRequestToken: token, ...rest } = input;
    const text = JSON.stringify([changes, rest]);
    const before = this.#transactions.get(token);
    if (before === text) return {};
    if (before !== undefined)
      throw new Refusal('IdempotentParameterMismatchException', 'another transaction had this token');
    if (changes.length > MOST_IN_TRANSACTION) throw invalid('too many items in a transaction');
    const puts = /** @type {Input[]} */ (changes).map((change) => {
      checkFields(change, ['Put']);
      return this.#prepared(change['Put']);
    });
    if (new Set(puts.map(({ place }) => place)).size < puts.length)
      throw invalid('Transaction request cannot include multiple operations on one item');
    if (!puts.every(({ applies }) => applies)) {
      const reasons = puts.map(({ applies }) => ({ Code: applies ? 'None' : 'ConditionalCheckFailed' }));
      throw new Refusal('TransactionCanceledException', 'Transaction cancelled', {
        CancellationReasons: reasons,
      });
    }
    for (const { write } of puts) write();
    this.#transactions.set(token, text);
    return {};
  }

  /** In pages, ordered by reversed names. @param {Input} input */
  #scan(input) {
    checkFields(input, ['TableName', 'ConsistentRead', 'ExclusiveStartKey']);
    if (input['ConsistentRead'] !== true) throw invalid('a list of leases needs a consistent read');
    const reversed = (/** @type {string} */ name) => Array.from(name).reverse().join('');
    const items = [...this.items(input['TableName']).values()].sort((a, b) => {
      return reversed(nameIn(a)) < reversed(nameIn(b)) ? -1 : 1;
    });
    const start = input['ExclusiveStartKey'];
    const first = start === undefined ? 0 : items.findIndex((item) => nameIn(item) === nameIn(start)) + 1;
    const page = items.slice(first, first + this.pageSize);
    const last = page.at(-1);
    const more = first + page.length < items.length && last !== undefined;
    return { Items: page, Count: page.length, ...(more && { LastEvaluatedKey: { name: last['name'] } }) };
  }

  /** Checks a write, and whether its condition is met. @param {Input} input */
  #prepared(input) {
    checkFields(input, PUT);
    const { Item: item, ConditionExpression: condition, TableName: table } = input;
    const { ExpressionAttributeNames: names, ExpressionAttributeValues: values } = input;
    const items = this.items(table);
    const name = nameIn(item);
    for (const [attribute, { S, N, BOOL, ...rest }] of Object.entries(/** @type {Item} */ (item))) {
      const isNumber = N !== undefined && /^\d+$/.test(N) && N.length <= MOST_DIGITS;
      const values = [S !== undefined, isNumber, typeof BOOL === 'boolean'].filter(Boolean);
      if (values.length !== 1 || Object.keys(rest).length > 0) throw invalid(`attribute ${attribute}`);
    }
    if (JSON.stringify(item).length > LONGEST_ITEM)
      throw invalid('Item size has exceeded the maximum allowed size');
    if (JSON.stringify(names) !== '{"#version":"version"}') throw invalid('names of attributes');
    const version = items.get(name)?.['version']?.S;
    const place = `${table} ${name}`;
    const write = () => void items.set(name, item);
    if (condition === 'attribute_not_exists(#version)' && values === undefined)
      return { place, write, applies: version === undefined };
    if (condition !== '#version = :before') throw invalid(`the stand-in does not know ${condition}`);
    checkFields(values, [':before']);
    return { place, write, applies: version !== undefined && version === values[':before'].S };
  }
}

/**
 * @param {Input} input
 * @param {readonly string[]} known
 */
function checkFields(input, known) {
  const unknown = Object.keys(input).filter((field) => !known.includes(field));
  if (unknown.length > 0) throw invalid(`the stand-in does not know ${unknown.join()}`);
}

/** The partition key of an item. @param {Item} item */
function nameIn(item) {
  const name = item['name']?.S;
  if (name === undefined || name === '') throw invalid('The provided key element does not match the schema');
  if (Buffer.byteLength(name) > LONGEST_KEY) throw invalid('Size of hashkey has exceeded the maximum size');
  return name;
}
