import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import * as layout from '../lib/engine/contract/layout.js';
import * as lockWord from '../lib/engine/contract/lock-word.js';

/** The `inline constexpr` integers of a header, by name. */
function constantsOf(header: string): Map<string, number> {
  const path = fileURLToPath(new URL(`../native/core/${header}`, import.meta.url));
  const declaration = /^inline constexpr std::u?int(?:32|64)_t (k\w+) = ([^;]+);/gm;
  const constants = new Map<string, number>();
  for (const [, name, expression] of readFileSync(path, 'utf8').matchAll(declaration)) {
    constants.set(name!, evaluate(expression!, constants));
  }
  return constants;
}

/** A number, or two of them with `<<` in between; each a literal, or a constant that came before. */
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

/** The numbers of a module, by the names that they have in C++. */
function twinsOf(module: Record<string, unknown>): Record<string, number> {
  const numbers = Object.entries(module).filter(
    (entry): entry is [string, number] => typeof entry[1] === 'number',
  );
  return Object.fromEntries(numbers.map(([name, value]) => [twinName(name), value >>> 0]));
}

describe('the tables that the fast path in JavaScript shares with the core', () => {
  it('lock-word.ts has the numbers of lock_word.h, all of them', () => {
    const ours = twinsOf(lockWord);
    expect(Object.keys(ours).length).toBeGreaterThan(3);
    expect(ours).toEqual(Object.fromEntries(constantsOf('lock_word.h')));
  });

  it('layout.ts has all numbers of layout.h', () => {
    const theirs = Object.fromEntries(constantsOf('layout.h'));
    expect(Object.keys(theirs).length).toBeGreaterThan(3);
    expect(twinsOf(layout)).toMatchObject(theirs);
  });

  it('places words and sizes as the header of the core does', () => {
    const header = constantsOf('layout.h');
    const ints = header.get('kHeaderInts')!;
    const stripeInts = header.get('kStripeInts')!;
    for (const stripe of [0, 1, 1000, layout.MAX_STRIPES - 1]) {
      expect(layout.wordIndex(stripe)).toBe(ints + stripe * stripeInts);
      expect(layout.byteLengthFor(stripe + 1)).toBe((ints + (stripe + 1) * stripeInts) * 4);
    }
  });
});
