import { inspect, type InspectOptions } from 'node:util';

/**
 * A symbol for an own, enumerable property `threadBound`. Structured clone refuses symbols, and its
 * DataCloneError shows the symbol's text. So an object with this property cannot be posted to another thread,
 * where a copy would hold nothing.
 *
 * `instead` is the advice in that text. Node 24 shows at most 130 characters of the text.
 */
export function threadBound(what: string, instead: string): symbol {
  return Symbol(`a stripelock ${what} belongs to its thread: ${instead}`);
}

/** The text that `console.log` shows for an object with such a property. */
export function inspectBound(object: object, options: InspectOptions): string {
  const { threadBound: _, ...shown } = object as { threadBound?: symbol };
  return `${object.constructor.name} ${inspect(shown, options)}`;
}
