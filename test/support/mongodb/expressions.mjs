// The expressions of aggregation that the store uses. Every other one is refused.

import { add, compare, isTrue, multiply, refuse, subtract, toLong, typeOf } from './values.mjs';

/** @typedef {import('./values.mjs').Document} Document */

/** Code of MongoDB for an operator that it does not know. */
const INVALID_OPERATOR = 168;

/**
 * By operator, of operands that are evaluated.
 *
 * @type {Record<string, [count: number | undefined, compute: (values: any[]) => any]>}
 */
const operators = {
  $and: [undefined, (values) => values.every(isTrue)],
  $or: [undefined, (values) => values.some(isTrue)],
  $eq: [2, ([a, b]) => compare(a, b) === 0],
  $gt: [2, ([a, b]) => compare(a, b) > 0],
  $lte: [2, ([a, b]) => compare(a, b) <= 0],
  $in: [2, ([value, list]) => list.some((/** @type {any} */ item) => compare(value, item) === 0)],
  $ifNull: [2, ([value, otherwise]) => value ?? otherwise],
  $add: [undefined, add],
  $multiply: [undefined, multiply],
  $subtract: [2, subtract],
  $max: [undefined, greatest],
};

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
export function evaluate(expression, document, now) {
  const type = typeOf(expression);
  if (type === 'string') return expression.startsWith('$') ? valueAt(expression, document, now) : expression;
  if (type === 'array')
    return expression.map((/** @type {any} */ item) => evaluate(item, document, now) ?? null);
  if (type !== 'object') return expression;
  const entries = Object.entries(expression);
  if (entries.length > 0 && !entries.some(([name]) => name.startsWith('$')))
    return Object.fromEntries(entries.map(([name, field]) => [name, evaluate(field, document, now)]));
  const [operator, operand] = entries[0] ?? refuse(INVALID_OPERATOR, 'an empty expression');
  if (entries.length > 1) refuse(INVALID_OPERATOR, `an expression of ${Object.keys(expression).join()}`);
  if (operator === '$literal') return operand;
  if (operator === '$type') return typeOf(evaluate(operand, document, now));
  if (operator === '$toLong') return toLong(evaluate(operand, document, now));
  if (!Array.isArray(operand)) refuse(INVALID_OPERATOR, `the expression ${operator} of one operand`);
  if (operator === '$cond') {
    const [condition, yes, no] = operand;
    return evaluate(isTrue(evaluate(condition, document, now)) ? yes : no, document, now);
  }
  const [count, compute] = operators[operator] ?? refuse(INVALID_OPERATOR, `the expression ${operator}`);
  if (count !== undefined && operand.length !== count)
    refuse(16020, `${operator} of ${operand.length} operands`);
  return compute(operand.map((/** @type {any} */ item) => evaluate(item, document, now)));
}

/**
 * @param {string} path
 * @param {Document} document
 * @param {Date} now
 */
function valueAt(path, document, now) {
  if (path === '$$NOW') return now;
  if (path === '$$ROOT') return document;
  if (path.startsWith('$$')) refuse(17276, `the variable ${path}`);
  const field = path.slice(1);
  if (field === '' || field.includes('.')) refuse(16410, `the path ${path}`);
  return Object.hasOwn(document, field) ? document[field] : undefined;
}
