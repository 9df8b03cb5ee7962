import { parse as parseTolerantly, type ParseError } from 'jsonc-parser';
import { isBytes } from '../common/bytes.js';
import { invalidArgType } from '../common/errors.js';
import { parseError, stringifyError } from './errors.js';

/** Converts between a file's bytes and its value. `file` is the path, for errors. */
export interface FileFormat<T> {
  decode(bytes: Uint8Array, file: string): T;
  encode(value: T, file: string): Uint8Array;
}

export const bytesFormat: FileFormat<Uint8Array> = {
  decode: (bytes) => bytes,
  encode(value) {
    if (!isBytes(value)) throw invalidArgType('the new contents', 'a Uint8Array', value);
    return value;
  },
};

/**
 * Refuses bytes that are not UTF-8. An update decodes and encodes the text, so it would change such
 * bytes. Removes a byte order mark.
 */
const decoder = new TextDecoder('utf-8', { fatal: true });
const encoder = new TextEncoder();

export function textFormat<T>(parse: (text: string) => T, stringify: (value: T) => string): FileFormat<T> {
  return {
    decode(bytes, file) {
      let text: string | undefined;
      try {
        text = decoder.decode(bytes);
        return parse(text);
      } catch (error) {
        const place = parse === parseJson && text !== undefined ? placeOfFault(text) : undefined;
        throw parseError(file, place, error);
      }
    },
    encode(value, file) {
      const text = stringified(value, stringify, file);
      if (typeof text !== 'string') throw invalidArgType('the new contents', 'a string', text);
      return encoder.encode(text);
    },
  };
}

function stringified<T>(value: T, stringify: (value: T) => string, file: string): unknown {
  try {
    return stringify(value);
  } catch (error) {
    throw stringifyError(file, error);
  }
}

const INDENTATION = 2;

export const parseJson = (text: string): never => JSON.parse(text) as never;

export function stringifyJson(value: unknown): string {
  const text = JSON.stringify(value, undefined, INDENTATION) as string | undefined;
  if (text === undefined) throw new TypeError('JSON cannot represent it');
  return `${text}\n`;
}

/**
 * The line and column of the first error in a JSON text, counted from 1. `JSON.parse` reports
 * a position only in some cases.
 */
function placeOfFault(text: string): string | undefined {
  const errors: ParseError[] = [];
  parseTolerantly(text, errors, { disallowComments: true });
  const [first] = errors;
  if (first === undefined) return undefined;
  const lines = text.slice(0, first.offset).split('\n');
  return `line ${lines.length}, column ${lines.at(-1)!.length + 1}`;
}
