import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The text of a file below `native/`. */
function textOf(file: string): string {
  return readFileSync(fileURLToPath(new URL(`../../native/${file}`, import.meta.url)), 'utf8');
}

/** The `inline constexpr` integers of a header below `native/`, by name. */
export function constantsOf(header: string): Map<string, number> {
  const declaration = /^inline constexpr std::u?int(?:32|64)_t (k\w+) = ([^;]+);/gm;
  const constants = new Map<string, number>();
  for (const [, name, expression] of textOf(header).matchAll(declaration)) {
    constants.set(name!, evaluate(expression!, constants));
  }
  return constants;
}

/** The values of an `enum class` of a header below `native/`, by name. One without a number follows the one before. */
export function enumOf(header: string, name: string): Map<string, number> {
  const body = new RegExp(`^enum class ${name} : [\\w:]+ \\{([^}]*)\\}`, 'm').exec(textOf(header))?.[1];
  if (body === undefined) throw new Error(`${header} has no enum class ${name}`);
  const entries = body
    .replaceAll(/\/\/.*/g, '')
    .split(',')
    .filter((entry) => entry.trim() !== '');
  let next = 0;
  return new Map(
    entries.map((entry) => {
      const [, enumerator, value] = /^\s*(k\w+)(?: = (\d+))?\s*$/.exec(entry) ?? [];
      if (enumerator === undefined) throw new Error(`cannot read ${entry} of ${name}`);
      const number = value === undefined ? next : Number(value);
      next = number + 1;
      return [enumerator, number];
    }),
  );
}

/** A number, or two of them with `<<` in between; each is a literal or an earlier constant. */
function evaluate(expression: string, known: ReadonlyMap<string, number>): number {
  const operands = expression.split('<<').map((text) => {
    const operand = text.trim();
    const value = known.get(operand) ?? Number(operand.replaceAll("'", '').replace(/[uUlL]+$/, ''));
    if (!Number.isInteger(value)) throw new Error(`cannot read the constant ${expression}`);
    return value;
  });
  return operands.reduce((value, shift) => value * 2 ** shift);
}

/** The name in C++ of a constant in TypeScript: `kHolderMask` for `HOLDER_MASK`. */
export function nameInCpp(name: string): string {
  const words = name.split('_').map((word) => word.charAt(0) + word.slice(1).toLowerCase());
  return `k${words.join('')}`;
}

/** The numbers that a module exports, by their names in C++. */
export function numbersOf(module: Record<string, unknown>): Map<string, number> {
  const numbers = Object.entries(module).filter(
    (entry): entry is [string, number] => typeof entry[1] === 'number',
  );
  return new Map(numbers.map(([name, value]) => [nameInCpp(name), value]));
}
