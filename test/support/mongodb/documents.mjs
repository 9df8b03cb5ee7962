// Filters, updates by a pipeline, and projections, as far as the store uses them. Everything else is refused.

import { evaluate } from './expressions.mjs';
import { compare, isTrue, refuse, typeOf } from './values.mjs';

/** @typedef {import('./values.mjs').Document} Document */

/** Code of MongoDB for a value that it does not take. */
const BAD_VALUE = 2;
const SCALARS = ['int', 'long', 'double', 'string', 'bool', 'date'];

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
 * @param {Document} document
 * @param {unknown} pipeline
 * @param {Date} now
 * @returns {Document}
 */
export function updated(document, pipeline, now) {
  if (!Array.isArray(pipeline)) refuse(BAD_VALUE, 'an update that is not a pipeline');
  const result = pipeline.reduce((before, stage) => {
    const [[operator, operand]] = Object.entries(stage);
    if (operator === '$set') return withFields(before, operand, now);
    if (operator === '$unset') return without(before, operand);
    return refuse(40324, `the stage ${operator} of an update`);
  }, document);
  if (compare(result._id, document._id) !== 0) refuse(66, 'an update of the field _id');
  return result;
}

/**
 * All expressions see the document as it was before the stage.
 *
 * @param {Document} document
 * @param {Document} fields
 * @param {Date} now
 */
function withFields(document, fields, now) {
  const result = { ...document };
  for (const [field, expression] of Object.entries(fields)) {
    if (field.includes('.') || field.startsWith('$')) refuse(BAD_VALUE, `the field ${field} of an update`);
    const value = evaluate(expression, document, now);
    if (value === undefined) delete result[field];
    else result[field] = value;
  }
  return result;
}

/**
 * @param {Document} document
 * @param {unknown} field
 */
function without(document, field) {
  if (typeof field !== 'string') refuse(BAD_VALUE, '$unset of anything but one field');
  const { [/** @type {string} */ (field)]: _, ...rest } = document;
  return rest;
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
  const { _id: id, ...fields } = projection;
  if (id === undefined || Number(id) !== 0) result['_id'] = document['_id'];
  for (const [field, expression] of Object.entries(fields)) {
    const isField = typeOf(expression) === 'int';
    if (isField && Number(expression) !== 1) refuse(BAD_VALUE, `a projection without ${field}`);
    const value = isField ? document[field] : evaluate(expression, document, now);
    if (value !== undefined) result[field] = value;
  }
  return result;
}
