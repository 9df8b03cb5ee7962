// Values as BSON has them, in MongoDB's order. Numbers keep their types: Int32, Long and Double of the driver's BSON.

import mongodb from 'mongodb';

export const { BSON } = mongodb;
const { Int32, Long, Double } = BSON;

/** @typedef {Record<string, any>} Document */

/** What the server answers in place of a result. */
export class CommandError extends Error {
  /**
   * @param {number} code
   * @param {string} message
   * @param {readonly string[]} [labels]
   */
  constructor(code, message, labels = []) {
    super(message);
    this.code = code;
    this.labels = labels;
  }
}

/**
 * @param {number} code
 * @param {string} what
 * @returns {never}
 */
export function refuse(code, what) {
  throw new CommandError(code, `this stand-in of MongoDB does not know ${what}`);
}

/** The types that the stand-in knows, in the order of MongoDB. Numbers are compared with each other. */
const ORDER = ['missing', 'null', 'int', 'long', 'double', 'string', 'object', 'array', 'bool', 'date'];
const NUMBERS = ['int', 'long', 'double'];

/** @param {any} value */
export function typeOf(value) {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  if (typeof value === 'string') return 'string';
  if (typeof value === 'boolean') return 'bool';
  if (value instanceof Date) return 'date';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'object' && value._bsontype === undefined) return 'object';
  if (value instanceof Int32) return 'int';
  if (value instanceof Long) return 'long';
  if (value instanceof Double) return 'double';
  return refuse(2, `a value of ${value._bsontype ?? typeof value}`);
}

const isNumber = (/** @type {any} */ value) => NUMBERS.includes(typeOf(value));
const rankOf = (/** @type {any} */ value) =>
  isNumber(value) ? ORDER.indexOf('int') : ORDER.indexOf(typeOf(value));

/**
 * Below 0, 0 or above 0.
 *
 * @param {any} a
 * @param {any} b
 * @returns {number}
 */
export function compare(a, b) {
  const ranks = rankOf(a) - rankOf(b);
  if (ranks !== 0) return ranks;
  switch (typeOf(a)) {
    case 'missing':
    case 'null':
      return 0;
    case 'string':
      return Buffer.compare(Buffer.from(a), Buffer.from(b));
    case 'date':
      return a.getTime() - b.getTime();
    case 'bool':
      return Number(a) - Number(b);
    case 'int':
    case 'long':
    case 'double':
      return compareNumbers(a, b);
    case 'object':
      return compareDocuments(Object.entries(a), Object.entries(b));
    default:
      return refuse(2, `a comparison of ${typeOf(a)}s`);
  }
}

/**
 * Field by field, in their order: first the types of the values, then the names, then the values.
 *
 * @param {[string, any][]} a
 * @param {[string, any][]} b
 */
function compareDocuments(a, b) {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const order = rankOf(a[i][1]) - rankOf(b[i][1]) || compare(a[i][0], b[i][0]) || compare(a[i][1], b[i][1]);
    if (order !== 0) return order;
  }
  return a.length - b.length;
}

/**
 * @param {any} a
 * @param {any} b
 */
function compareNumbers(a, b) {
  if (a instanceof Double || b instanceof Double) return Number(a) - Number(b);
  const [one, other] = [wholeOf(a), wholeOf(b)];
  return one < other ? -1 : Number(one > other);
}

/** @param {any} value An Int32 or a Long. */
export function wholeOf(value) {
  return value instanceof Long ? value.toBigInt() : BigInt(value.value);
}

/** @param {any} value */
export function isTrue(value) {
  return !(
    value === undefined ||
    value === null ||
    value === false ||
    (isNumber(value) && Number(value) === 0)
  );
}

/**
 * The sum or product of whole numbers: an Int32 if all are and it fits, else a Long. MongoDB turns what does not fit into a
 * Double, which would lose digits of a token.
 *
 * @param {any[]} values
 * @param {(a: bigint, b: bigint) => bigint} operation
 */
function whole(values, operation) {
  const result = values.map(wholeOf).reduce(operation);
  if (BigInt.asIntN(64, result) !== result) refuse(2, 'numbers of more than 64 bits');
  return values.every((value) => value instanceof Int32) && BigInt.asIntN(32, result) === result
    ? new Int32(Number(result))
    : Long.fromBigInt(result);
}

/**
 * Null if an operand is null or missing, as in MongoDB.
 *
 * @param {any[]} values
 * @param {string} operator
 * @param {(values: any[]) => any} compute
 */
function arithmetic(values, operator, compute) {
  if (values.some((value) => value === null || value === undefined)) return null;
  const types = values.map(typeOf);
  const wrong = types.find((type) => !['int', 'long', 'date'].includes(type));
  if (wrong !== undefined)
    throw new CommandError(14, `${operator} only supports numeric or date types, not ${wrong}`);
  return compute(values);
}

/** @param {any[]} values */
export function add(values) {
  return arithmetic(values, '$add', () => {
    const dates = values.filter((value) => value instanceof Date);
    if (dates.length > 1) throw new CommandError(16612, 'only one date allowed in an $add expression');
    if (dates.length === 0) return whole(values, (a, b) => a + b);
    const numbers = values.filter((value) => !(value instanceof Date));
    return new Date(numbers.reduce((sum, value) => sum + Number(wholeOf(value)), dates[0].getTime()));
  });
}

/** @param {any[]} values */
export function multiply(values) {
  return arithmetic(values, '$multiply', () => {
    if (values.some((value) => value instanceof Date)) {
      throw new CommandError(16555, '$multiply only supports numeric types, not date');
    }
    return whole(values, (a, b) => a * b);
  });
}

/** @param {any[]} values Two dates. */
export function subtract([a, b]) {
  return arithmetic([a, b], '$subtract', () => {
    if (!(a instanceof Date && b instanceof Date)) refuse(2, '$subtract of anything but dates');
    return Long.fromNumber(a.getTime() - b.getTime());
  });
}

/** @param {any} value */
export function toLong(value) {
  if (value instanceof Date) return Long.fromNumber(value.getTime());
  return refuse(2, `$toLong of ${typeOf(value)}`);
}
