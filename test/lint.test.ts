import { describe, expect, it } from 'vitest';
import { unknownNames } from '../scripts/lint/names.mjs';

const project = {
  'lib/lock/guard.ts':
    "export class Guard {\n  release(): void {}\n}\nexport const options = { 'lease-ttl': 1, mode: 'shared' };\nconst guard = 1;\n",
  'native/core/table/table.h':
    'class Table {\n public:\n  bool leave(int stripe);\n};\nconstexpr int kQueued = 1;\n',
  'native/core/waits.h': 'class Waits { void release(); };\n',
  'scripts/run.mjs':
    "const text = 'a sentence that speaks of a gadget and of EVALSHA';\nconsole.log(text);\n",
};
/** The names that the check misses in a comment of a file. */
function unknownIn(comment: string, file = 'lib/lock/lock.ts'): string[] {
  const found = unknownNames(new Map(Object.entries({ ...project, [file]: `${comment}\nlet own;\n` })));
  return found.map((line) => line.replace(/^.*: no /, ''));
}

describe('a name in a comment', () => {
  it.each([
    'an identifier, or the word of a name-like string: `Guard`, `own`, `lease`, `ttl`, `mode`, `shared`',
    'a method, with or without arguments: `Guard.release`, `guard.release()`, `release(key)`, release(), kQueued',
    'of C++, with its class: `Table::leave`, Table::leave(), std::mutex',
    'a word of a command in a sentence: `EVALSHA`',
    'what Node and JavaScript have: `Atomics.wait`, `worker_threads`, `AbortSignal`, performance.now(), codePointAt',
    'a path: `core/table/table.h`, native/core/table/table.h, `guard.ts`, `lib/lock/`, `dist/any.js`, lib/<name>/x.ts',
    'an expression: `a + undefinedThing`, `x -> y`',
    'a product: JavaScript, 4 KiB, Benchmark.js, https://example.com/someCamelCase.ts',
  ])('exists where it is %s', (comment) => {
    expect(unknownIn(`// ${comment}`)).toEqual([]);
  });

  it.each([
    ['`gone`', 'gone'],
    ['`Guard.gone()`', 'Guard.gone()'],
    ['gone()', 'gone'],
    ['kGone', 'kGone'],
    ['somethingGone', 'somethingGone'],
    ['{@link Gone}', 'Gone'],
    ['`core/gone.h`', 'core/gone.h'],
    ['native/core/gone.cc', 'native/core/gone.cc'],
    ['gone.mjs', 'gone.mjs'],
    // A word of a sentence is not a name.
    ['`gadget`', 'gadget'],
  ])('does not exist: %s', (text, name) => {
    expect(unknownIn(`// It speaks of ${text} here.`)).toEqual([name]);
    expect(unknownIn(`/** It speaks of ${text} here. */`, 'native/core/own.h')).toEqual([name]);
  });

  it('is reported with its file and line', () => {
    const text = "const first = 'no // comment `gone`';\n// One\n// speaks of `gone`.\n";
    expect(unknownNames(new Map([['scripts/some.mjs', text]]))).toEqual(['scripts/some.mjs:3: no gone']);
  });

  it('may be declared by JSDoc', () => {
    expect(
      unknownIn('/** @typedef {object} Shape\n * @property {number} side */\n// A Shape: `Shape`, `side`'),
    ).toEqual([]);
  });
});
