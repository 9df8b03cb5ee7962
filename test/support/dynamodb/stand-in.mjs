import { appendFileSync, existsSync, readFileSync, truncateSync } from 'node:fs';
import { once } from 'node:events';
import http from 'node:http';

/** @typedef {Record<string, { S?: string, N?: string, BOOL?: boolean }>} Item */
/** @typedef {Record<string, any>} Input */
/** @typedef {{ table: string, item: Item }} Write */
/** @typedef {{ writes: Write[], token?: string, text?: string }} Entry Of the journal: what one request changed. */
/** @typedef {{ type: string, status: number, executes: boolean }} Failure `executes`: whether the request was executed. */

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
 * returns, and is seen only in the `Date` header of answers. If there is a journal, each change is written there before it
 * counts: then a stand-in that is killed and started again has its data.
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
  /** Milliseconds by which the clocks of its machines differ. They take turns. */
  spread = 0;
  /** Failures, one for each request in turn. For `null`, the request succeeds. @type {(Failure | null)[]} */
  failing = [];
  /** Items by name. @type {Map<string, Map<string, Item>>} */
  #tables = new Map();
  /** The inputs of executed transactions, by token. @type {Map<string, string>} */
  #transactions = new Map();
  /** The request whose next answer will be lost. @type {string | undefined} */
  #lost;
  /** @type {() => unknown} */
  #onLost = () => undefined;
  /** @type {string | undefined} */
  #journal;
  #server = http.createServer((request, response) => void this.#answer(request, response));

  /**
   * @param {readonly string[]} [tables]
   * @param {{ port?: number, journal?: string }} [options] A free port and no journal, if they are not given.
   */
  static async start(tables = ['stripelock_leases'], { port = 0, journal } = {}) {
    const standIn = new StandIn();
    for (const table of tables) standIn.#tables.set(table, new Map());
    if (journal !== undefined) standIn.#readJournal(journal);
    standIn.#server.listen(port, '127.0.0.1');
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
    /** @type {Buffer[]} */
    const parts = [];
    for await (const part of request) parts.push(part);
    const operation = String(request.headers['x-amz-target']).replace('DynamoDB_20120810.', '');
    const number = this.requests.push(operation);
    const failure = this.failing[number % this.failing.length];
    const execute = () => this.#replyTo(operation, Buffer.concat(parts).toString());
    if (failure?.executes) execute();
    const { status, body } = failure ? replyOf(failure.status, failure.type) : execute();
    if (operation === this.#lost) {
      this.#lost = undefined;
      await this.#onLost();
      request.socket.destroy();
      return;
    }
    response.sendDate = false;
    const now = this.now() + (number % 3 === 0 ? this.spread : 0);
    const date = this.hasDate ? { date: new Date(now).toUTCString() } : {};
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
      return replyOf(400, type, message, fields);
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
    this.#write({ writes: [put] });
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
    this.#write({ writes: puts, token, text });
    return {};
  }

  /** @param {Entry} entry */
  #write({ writes, token, text }) {
    const entry = { writes: writes.map(({ table, item }) => ({ table, item })), token, text };
    if (this.#journal !== undefined) appendFileSync(this.#journal, `${JSON.stringify(entry)}\n`);
    this.#apply(entry);
  }

  /** @param {Entry} entry */
  #apply({ writes, token, text }) {
    for (const { table, item } of writes) this.items(table).set(nameIn(item), item);
    if (token !== undefined && text !== undefined) this.#transactions.set(token, text);
  }

  /** @param {string} journal A file. Its last line may not be complete: then the change was not answered. */
  #readJournal(journal) {
    this.#journal = journal;
    if (!existsSync(journal)) return;
    const text = readFileSync(journal, 'utf8');
    const complete = text.slice(0, text.lastIndexOf('\n') + 1);
    truncateSync(journal, Buffer.byteLength(complete));
    for (const line of complete.split('\n').slice(0, -1)) this.#apply(JSON.parse(line));
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
    if (condition === 'attribute_not_exists(#version)' && values === undefined)
      return { table, item, place, applies: version === undefined };
    if (condition !== '#version = :before') throw invalid(`the stand-in does not know ${condition}`);
    checkFields(values, [':before']);
    return { table, item, place, applies: version !== undefined && version === values[':before'].S };
  }
}

/**
 * @param {number} status
 * @param {string} type
 * @param {string} [message]
 * @param {object} [fields]
 */
function replyOf(status, type, message = type, fields = {}) {
  return { status, body: { __type: `com.amazonaws.dynamodb.v20120810#${type}`, message, ...fields } };
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
