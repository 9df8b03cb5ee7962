import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import * as layout from '../../../lib/engine/contract/layout.js';
import * as lockWord from '../../../lib/engine/contract/lock-word.js';

/** The `inline constexpr` integers of a header, by name. */
function constantsOf(header: string): Map<string, number> {
  const path = fileURLToPath(new URL(`../../../native/core/${header}`, import.meta.url));
  const declaration = /^inline constexpr std::u?int(?:32|64)_t (k\w+) = ([^;]+);/gm;
  const constants = new Map<string, number>();
  for (const [, name, expression] of readFileSync(path, 'utf8').matchAll(declaration)) {
    constants.set(name!, evaluate(expression!, constants));
  }
  return constants;
}

/** A number, or two numbers with `<<` in between. Each is a literal, or an earlier constant. */
function evaluate(expression: string, known: ReadonlyMap<string, number>): number {
  const operands = expression.split('<<').map((text) => {
    const operand = text.trim();
    const value = known.get(operand) ?? Number(operand.replaceAll("'", '').replace(/[uUlL]+$/, ''));
    if (!Number.isInteger(value)) throw new Error(`cannot read the constant ${expression}`);
    return value;
  });
  return operands.reduce((value, shift) => value * 2 ** shift);
}

/** `HOLDER_MASK` is `kHolderMask`. */
function twinName(name: string): string {
  const words = name.split('_').map((word) => word.charAt(0) + word.slice(1).toLowerCase());
  return `k${words.join('')}`;
}

function numbersOf(module: Record<string, unknown>): [string, number][] {
  return Object.entries(module).filter((entry): entry is [string, number] => typeof entry[1] === 'number');
}

describe('the tables that the fast path in JavaScript shares with the core', () => {
  for (const [file, module, header] of [
    ['lock-word.ts', lockWord, 'lock_word.h'],
    ['layout.ts', layout, 'layout.h'],
  ] as const) {
    it(`${file} has the numbers of ${header}, all of them`, () => {
      const ours = new Map(numbersOf(module).map(([name, value]) => [twinName(name), value >>> 0]));
      expect(ours.size).toBeGreaterThan(3);
      expect(Object.fromEntries(ours)).toEqual(Object.fromEntries(constantsOf(header)));
    });
  }

  it('computes the same places and sizes as the header of the core', () => {
    const header = constantsOf('layout.h');
    const ints = header.get('kHeaderInts')!;
    const stripeInts = header.get('kStripeInts')!;
    for (const stripe of [0, 1, 1000, layout.MAX_STRIPES - 1]) {
      expect(layout.wordIndex(stripe)).toBe(ints + stripe * stripeInts);
      expect(layout.byteLengthFor(stripe + 1)).toBe((ints + (stripe + 1) * stripeInts) * 4);
    }
  });
});
