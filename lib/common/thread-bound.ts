import { inspect, type InspectOptions } from 'node:util';

/**
 * The value of an own, enumerable property `threadBound`. Structured clone refuses a symbol, and its DataCloneError shows the
 * text. So an object with this property cannot be posted to another thread, where a copy of it would hold nothing.
 *
 * `instead`: what a program does instead. Node 24 shows no more than 130 characters of the text.
 */
export function threadBound(what: string, instead: string): symbol {
  return Symbol(`a stripelock ${what} belongs to its thread: ${instead}`);
}

/** What `console.log` shows of such an object. */
export function inspectBound(object: object, options: InspectOptions): string {
  const { threadBound: _, ...shown } = object as { threadBound?: symbol };
  return `${object.constructor.name} ${inspect(shown, options)}`;
}
