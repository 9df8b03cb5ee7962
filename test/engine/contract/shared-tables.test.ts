import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { loadAddon } from '../../../unbundled/engine/native/addon.js';
import * as fileAccess from '../../../lib/engine/contract/file-access.js';
import * as fileFault from '../../../lib/engine/contract/file-fault.js';
import * as layout from '../../../lib/engine/contract/layout.js';
import * as lockWord from '../../../lib/engine/contract/lock-word.js';
import { MODE_NAMES, modeNamed } from '../../../lib/engine/contract/mode.js';
import * as protocol from '../../../lib/engine/native/protocol.js';
import { constantsOf, enumOf, nameInCpp, numbersOf } from '../../support/constants.js';

/** A number as its 32 bits, which each side may take for a signed or an unsigned integer. */
function bits(numbers: ReadonlyMap<string, number>): Record<string, number> {
  return Object.fromEntries([...numbers].map(([name, value]) => [name, value >>> 0]));
}

describe('the numbers that TypeScript shares with C++', () => {
  it('are the same in contract/lock-word.ts and core/table/lock_word.h, all of them', () => {
    const ours = numbersOf(lockWord);
    expect(ours.size).toBeGreaterThan(3);
    expect(bits(ours)).toEqual(bits(constantsOf('core/table/lock_word.h')));
  });

  it('are the same in native/protocol.ts and node/protocol.h, all of them', () => {
    const ours = numbersOf(protocol);
    expect(ours.size).toBeGreaterThan(3);
    expect(bits(ours)).toEqual(bits(constantsOf('node/protocol.h')));
  });

  it('are the same in contract/mode.ts and core/table/mode.h for every mode', () => {
    const ours = MODE_NAMES.map((name) => [nameInCpp(name.toUpperCase()), modeNamed(name)!.code] as const);
    expect(Object.fromEntries(ours)).toEqual(Object.fromEntries(enumOf('core/table/mode.h', 'Mode')));
  });

  it('are the same in contract/file-fault.ts and core/base/file_error.h, all of them', () => {
    const theirs = enumOf('core/base/file_error.h', 'FileFault');
    expect(theirs.size).toBeGreaterThan(3);
    expect(Object.fromEntries(numbersOf(fileFault))).toEqual(Object.fromEntries(theirs));
  });

  it('are the same in contract/file-access.ts and core/files/lock_file.h, all of them', () => {
    const theirs = enumOf('core/files/lock_file.h', 'FileAccess');
    expect(theirs.size).toBe(3);
    expect(Object.fromEntries(numbersOf(fileAccess))).toEqual(Object.fromEntries(theirs));
  });

  it('are the same in contract/layout.ts and core/table/layout.h, all that the core uses', () => {
    const ours = numbersOf(layout);
    for (const [metric, cell] of Object.entries(layout.METRIC_CELLS)) {
      ours.set(`k${metric.charAt(0).toUpperCase()}${metric.slice(1)}Cell`, cell);
    }
    const theirs = bits(constantsOf('core/table/layout.h'));
    expect(Object.keys(theirs).length).toBeGreaterThan(3);
    expect(bits(ours)).toMatchObject(theirs);
  });

  it('place words and sizes as the header of the core does', () => {
    const header = constantsOf('core/table/layout.h');
    const ints = header.get('kHeaderInts')!;
    const stripeInts = header.get('kStripeInts')!;
    for (const stripe of [0, 1, 1000, layout.MAX_STRIPES - 1]) {
      expect(layout.wordIndex(stripe)).toBe(ints + stripe * stripeInts);
      expect(layout.byteLengthFor(stripe + 1)).toBe((ints + (stripe + 1) * stripeInts) * 4);
    }
  });
});

it('addon.ts declares every function that the addon exports, and no other', () => {
  const file = fileURLToPath(new URL('../../../lib/engine/native/addon.ts', import.meta.url));
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest);
  const declared = source.statements
    .filter(ts.isInterfaceDeclaration)
    .flatMap(({ members }) => members.filter(ts.isMethodSignature))
    .map(({ name }) => (name as ts.Identifier).text);
  const functions = Object.entries(loadAddon()).filter(([, exported]) => typeof exported === 'function');
  expect(declared.sort()).toEqual(functions.map(([name]) => name).sort());
});
