// Filters, updates by a pipeline, projections and expressions, as far as the store uses them. Everything else is refused with
// an error that names it. Values are compared in MongoDB's order. A 64-bit integer is a bigint, any other number a number.

import mongodb from 'mongodb';

export const { BSON } = mongodb;

/** @typedef {Record<string, any>} Document */

/** Codes of MongoDB: a value that it does not take, a stage or an operator that it does not know. */
export const BAD_VALUE = 2;
export const UNKNOWN_STAGE = 40324;
const INVALID_OPERATOR = 168;
const WRONG_TYPE = 14;

/** The server's error in place of a result. */
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

export const decode = (/** @type {Uint8Array} */ bytes) => BSON.deserialize(bytes, { useBigInt64: true });

/** Compares them by their bytes. */
const compareDocuments = (/** @type {Document} */ a, /** @type {Document} */ b) =>
  Buffer.compare(BSON.serialize(a), BSON.serialize(b));

export const isSame = (/** @type {Document} */ a, /** @type {Document} */ b) => compareDocuments(a, b) === 0;

/** MongoDB's order of types. Numbers are compared with each other. */
const ORDER = ['missing', 'null', 'int', 'long', 'double', 'string', 'object', 'array', 'bool', 'date'];
const SCALARS = ['int', 'long', 'double', 'string', 'bool', 'date'];

/** @param {any} value */
function typeOf(value) {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  if (value instanceof Date) return 'date';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'double';
  if (typeof value === 'object' && value._bsontype !== undefined)
    refuse(BAD_VALUE, `a value of ${value._bsontype}`);
  if (typeof value === 'bigint') return 'long';
  return typeof value === 'boolean' ? 'bool' : typeof value;
}

const rankOf = (/** @type {any} */ value) =>
  ORDER.indexOf(['number', 'bigint'].includes(typeof value) ? 'int' : typeOf(value));

/**
 * Below 0, 0 or above 0. Documents are only compared for equality.
 *
 * @param {any} a
 * @param {any} b
 */
function compare(a, b) {
  const type = typeOf(a);
  if (rankOf(a) !== rankOf(b)) return rankOf(a) - rankOf(b);
  if (type === 'missing' || type === 'null') return 0;
  if (type === 'string') return Buffer.compare(Buffer.from(a), Buffer.from(b));
  if (type === 'object') return compareDocuments(a, b);
  if (type === 'array') refuse(BAD_VALUE, 'a comparison of arrays');
  return a < b ? -1 : Number(a > b);
}

const isTrue = (/** @type {any} */ value) =>
  value !== undefined && value !== null && value !== false && value !== 0 && value !== 0n;

/**
 * The sum or product of whole numbers: an Int32 if all are and it fits, else a Long. MongoDB turns what does not fit into a
 * Double, which would lose digits of a token.
 *
 * @param {any[]} values
 * @param {(a: bigint, b: bigint) => bigint} operation
 */
function whole(values, operation) {
  const wrong = values.map(typeOf).find((type) => type !== 'int' && type !== 'long');
  if (wrong !== undefined)
    throw new CommandError(WRONG_TYPE, `only supports whole numbers here, not ${wrong}`);
  const result = values.map(BigInt).reduce(operation);
  if (BigInt.asIntN(64, result) !== result) refuse(BAD_VALUE, 'numbers of more than 64 bits');
  const fits = values.every((value) => typeof value === 'number') && BigInt.asIntN(32, result) === result;
  return fits ? Number(result) : result;
}

/** @param {any[]} values With a date, the others are milliseconds. */
function add(values) {
  const date = values.find((value) => value instanceof Date);
  if (date === undefined) return whole(values, (a, b) => a + b);
  const rest = values.filter((value) => value !== date);
  return new Date(date.getTime() + Number(whole(rest, (a, b) => a + b)));
}

/** @param {any[]} values Two dates. */
function subtract([a, b]) {
  if (!(a instanceof Date && b instanceof Date)) refuse(BAD_VALUE, '$subtract of anything but dates');
  return BigInt(a.getTime() - b.getTime());
}

/** Null if an operand is null or missing. */
const unlessNull = (/** @type {(values: any[]) => any} */ compute) => (/** @type {any[]} */ values) =>
  values.some((value) => value === null || value === undefined) ? null : compute(values);

/**
 * The function of each operator, for operands that are evaluated.
 *
 * @type {Record<string, [count: number | undefined, compute: (values: any[]) => any]>}
 */
const operators = {
  $and: [undefined, (values) => values.every(isTrue)],
  $or: [undefined, (values) => values.some(isTrue)],
  $eq: [2, ([a, b]) => compare(a, b) === 0],
  $ne: [2, ([a, b]) => compare(a, b) !== 0],
  $gt: [2, ([a, b]) => compare(a, b) > 0],
  $gte: [2, ([a, b]) => compare(a, b) >= 0],
  $lt: [2, ([a, b]) => compare(a, b) < 0],
  $lte: [2, ([a, b]) => compare(a, b) <= 0],
  $in: [2, ([value, list]) => list.some((/** @type {any} */ item) => compare(value, item) === 0)],
  $ifNull: [2, ([value, otherwise]) => value ?? otherwise],
  $add: [undefined, unlessNull(add)],
  $multiply: [undefined, unlessNull((values) => whole(values, (a, b) => a * b))],
  $subtract: [2, unlessNull(subtract)],
  $max: [undefined, greatest],
  $concat: [undefined, unlessNull((values) => values.map(textOf).join(''))],
  $substrCP: [3, ([text, start, count]) => substring(text ?? '', start, count)],
  $mergeObjects: [undefined, (values) => Object.assign({}, ...values.map(objectOf))],
};

/** @param {any} value */
const textOf = (value) =>
  typeOf(value) === 'string' ? value : refuse(WRONG_TYPE, `a text of ${typeOf(value)}`);

/** Nulls and missing values do not count. @param {any} value */
const objectOf = (value) =>
  ['object', 'null', 'missing'].includes(typeOf(value))
    ? value
    : refuse(40400, `$mergeObjects of ${typeOf(value)}`);

/**
 * Code points are counted. The text may be shorter.
 *
 * @param {any} text
 * @param {number} start
 * @param {number} count
 */
const substring = (text, start, count) =>
  Array.from(textOf(text))
    .slice(start, start + count)
    .join('');

/** Replaces the first match, and only that. Null if an operand is null or missing. @param {any[]} values */
const replacedOnce = unlessNull((values) => {
  const [input, find, replacement] = values.map(textOf);
  const at = input.indexOf(find);
  return at < 0 ? input : input.slice(0, at) + replacement + input.slice(at + find.length);
});

/** Nulls and missing values do not count. */
function greatest(/** @type {any[]} */ values) {
  const present = values.filter((value) => value !== null && value !== undefined);
  return present.length === 0 ? null : present.reduce((a, b) => (compare(a, b) >= 0 ? a : b));
}

/**
 * Undefined for what is missing.
 *
 * @param {any} expression
 * @param {Document} document
 * @param {Date} now
 * @returns {any}
 */
function evaluate(expression, document, now) {
  const valueOf = (/** @type {any} */ inner) => evaluate(inner, document, now);
  const type = typeOf(expression);
  if (type === 'string') return expression.startsWith('$') ? variable(expression, document, now) : expression;
  if (type === 'array') return expression.map((/** @type {any} */ item) => valueOf(item) ?? null);
  if (type !== 'object') return expression;
  const entries = Object.entries(expression);
  if (entries.length > 0 && !entries.some(([name]) => name.startsWith('$')))
    return Object.fromEntries(entries.map(([name, field]) => [name, valueOf(field)]));
  if (entries.length === 0) return {};
  const [operator, operand] = /** @type {[string, any]} */ (entries[0]);
  if (entries.length > 1) refuse(INVALID_OPERATOR, `an expression of ${Object.keys(expression).join()}`);
  if (operator === '$literal') return operand;
  if (operator === '$type') return typeOf(valueOf(operand));
  if (operator === '$toLong') {
    const value = valueOf(operand);
    return value instanceof Date ? BigInt(value.getTime()) : refuse(BAD_VALUE, `$toLong of ${typeOf(value)}`);
  }
  if (operator === '$toString') {
    const value = valueOf(operand) ?? null;
    if (value === null || typeof value === 'bigint') return value === null ? null : String(value);
    return value instanceof Date ? value.toISOString() : refuse(BAD_VALUE, `$toString of ${typeOf(value)}`);
  }
  if (operator === '$replaceOne') {
    const { input, find, replacement, ...rest } = operand;
    if (Object.keys(rest).length > 0) refuse(51750, `$replaceOne with ${Object.keys(rest).join()}`);
    return replacedOnce([input, find, replacement].map(valueOf));
  }
  if (!Array.isArray(operand)) refuse(INVALID_OPERATOR, `the expression ${operator} of one operand`);
  if (operator === '$cond') {
    const [condition, yes, no] = operand;
    return valueOf(isTrue(valueOf(condition)) ? yes : no);
  }
  const [count, compute] = operators[operator] ?? refuse(INVALID_OPERATOR, `the expression ${operator}`);
  if (count !== undefined && operand.length !== count)
    refuse(16020, `${operator} of ${operand.length} operands`);
  return compute(operand.map(valueOf));
}

/**
 * @param {string} path
 * @param {Document} document
 * @param {Date} now
 */
function variable(path, document, now) {
  if (path === '$$NOW') return now;
  if (path === '$$ROOT') return document;
  const field = path.slice(1);
  if (/^$|[$.]/.test(field)) refuse(17276, `the variable ${path}`);
  return Object.hasOwn(document, field) ? document[field] : undefined;
}

/**
 * The comparisons of a field with a value, in a filter. Values of another type never match.
 *
 * @type {Record<string, (value: any, bound: any) => boolean>}
 */
const COMPARISONS = {
  $gt: (value, bound) => typeOf(value) === typeOf(bound) && compare(value, bound) > 0,
  $gte: (value, bound) => typeOf(value) === typeOf(bound) && compare(value, bound) >= 0,
  $lt: (value, bound) => typeOf(value) === typeOf(bound) && compare(value, bound) < 0,
};

/** @param {any} wanted */
const isComparisons = (wanted) =>
  typeOf(wanted) === 'object' &&
  Object.entries(wanted).every(
    ([operator, bound]) => operator in COMPARISONS && SCALARS.includes(typeOf(bound)),
  );

/**
 * @param {Document} filter
 * @param {Document} document
 * @param {Date} now
 * @returns {boolean}
 */
export function matches(filter, document, now) {
  return Object.entries(filter).every(([field, wanted]) => {
    if (field === '$expr') return isTrue(evaluate(wanted, document, now));
    if (field === '$or') return wanted.some((/** @type {Document} */ one) => matches(one, document, now));
    if (field.startsWith('$')) refuse(BAD_VALUE, `the operator ${field} in a filter`);
    if (isComparisons(wanted)) {
      const value = valueAt(document, field);
      return Object.entries(wanted).every(([operator, bound]) => COMPARISONS[operator]?.(value, bound));
    }
    if (!SCALARS.includes(typeOf(wanted))) refuse(BAD_VALUE, `a filter by ${JSON.stringify(wanted)}`);
    return compare(valueAt(document, field), wanted) === 0;
  });
}

/**
 * @param {Document} document
 * @param {string} path With dots.
 */
function valueAt(document, path) {
  return path.split('.').reduce((/** @type {any} */ value, field) => {
    return typeOf(value) === 'object' && Object.hasOwn(value, field) ? value[field] : undefined;
  }, document);
}

/**
 * All expressions of a stage see the document as it was before the stage.
 *
 * @param {Document} document
 * @param {unknown} pipeline
 * @param {Date} now
 * @returns {Document}
 */
export function updated(document, pipeline, now) {
  if (!Array.isArray(pipeline)) refuse(BAD_VALUE, 'an update that is not a pipeline');
  let result = { ...document };
  for (const { $set = {}, $unset, $replaceWith, ...rest } of pipeline) {
    const [unknown] = Object.keys(rest);
    if (unknown !== undefined) refuse(UNKNOWN_STAGE, `the stage ${unknown} of an update`);
    if ($replaceWith !== undefined) result = objectOf(evaluate($replaceWith, result, now));
    const before = { ...result };
    for (const [field, expression] of Object.entries($set)) {
      if (/[$.]/.test(field)) refuse(BAD_VALUE, `the field ${field} of an update`);
      const value = evaluate(expression, before, now);
      if (value === undefined) delete result[field];
      else result[field] = value;
    }
    if ($unset !== undefined && typeof $unset !== 'string')
      refuse(BAD_VALUE, '$unset of anything but one field');
    delete result[$unset];
  }
  if (compare(result['_id'], document['_id']) !== 0) refuse(66, 'an update of the field _id');
  return result;
}

/**
 * @param {Document} document
 * @param {Document | undefined} projection
 * @param {Date} now
 * @returns {Document}
 */
export function projected(document, projection, now) {
  if (projection === undefined) return document;
  const result = /** @type {Document} */ ({});
  const { _id: id = 1, ...fields } = projection;
  if (id !== 0) result['_id'] = document['_id'];
  for (const [field, expression] of Object.entries(fields)) {
    const isField = typeof expression === 'number';
    if (isField && expression !== 1) refuse(BAD_VALUE, `a projection without ${field}`);
    const value = isField ? document[field] : evaluate(expression, document, now);
    if (value !== undefined) result[field] = value;
  }
  return result;
}

/**
 * Sorts by one field.
 *
 * @param {Document[]} documents
 * @param {Document} order
 */
export function sorted(documents, order) {
  const [[field, direction], ...rest] = /** @type {[[string, unknown], ...unknown[]]} */ (
    Object.entries(order)
  );
  if (rest.length > 0 || Number(direction) !== 1)
    refuse(BAD_VALUE, `the sort order ${JSON.stringify(order)}`);
  return documents.sort((a, b) => compare(a[field], b[field]));
}
