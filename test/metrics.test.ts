import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { HEADER_INTS, METRIC_CELLS, REGISTRY_INDEX, TOKEN_CELL } from '../lib/engine/contract/layout.js';
import { COUNT, COUNTED_WAITS, LOCK_KINDS } from '../lib/engine/contract/counts.js';
import { constantsOf, enumOf, nameInCpp } from './support/constants.js';
import { copyForTest } from './support/package-copy.js';
import { runProgram } from './support/programs.js';

/** Values of `stats()` that are not metrics: no thread counts them in the lock's memory. */
const NOT_COUNTED = ['engine', 'stripes', 'held'];

/** The names in `StripedLockStats` of what is counted. */
function declaredMetrics(): string[] {
  const file = fileURLToPath(new URL('../lib/common/types.ts', import.meta.url));
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest);
  const stats = source.statements
    .filter(ts.isInterfaceDeclaration)
    .find(({ name }) => name.text === 'StripedLockStats')!;
  const names = stats.members.map(({ name }) => (name as ts.Identifier).text);
  return names.filter((name) => !NOT_COUNTED.includes(name));
}

describe('every metric', () => {
  const declared = declaredMetrics();

  it('that StripedLockStats in common/types.ts declares has a cell in contract/layout.ts, and the reverse', () => {
    expect(Object.keys(METRIC_CELLS).sort()).toEqual(declared.sort());
  });

  it('that core/table/layout.h has a cell for has the same one in contract/layout.ts', () => {
    const cells = [...constantsOf('core/table/layout.h')].flatMap(([name, cell]): [string, number][] => {
      const metric = /^k(\w+)Cell$/.exec(name)?.[1];
      if (metric === undefined || metric === 'Token') return [];
      return [[metric.charAt(0).toLowerCase() + metric.slice(1), cell]];
    });
    expect(cells.length).toBeGreaterThan(0);
    expect(METRIC_CELLS).toMatchObject(Object.fromEntries(cells));
  });

  it('of collect() has the same place in contract/counts.ts and core/table/registry.h, and so has each kind', () => {
    const header = fileURLToPath(new URL('../native/core/table/registry.h', import.meta.url));
    const [, list] = /enum Count : std::uint32_t \{([^}]*)\}/.exec(readFileSync(header, 'utf8'))!;
    const names = [...list!.matchAll(/\bk(\w+),/g)].map(([, name]) => name!);
    expect(names.pop()).toBe('Waits');
    expect(Object.keys(COUNT).map((name) => nameInCpp(name.toUpperCase()))).toEqual(
      names.map((name) => `k${name}`),
    );
    expect(Object.values(COUNT)).toEqual(names.map((_, place) => place));
    expect(COUNTED_WAITS).toBe(names.length);
    const kinds = LOCK_KINDS.map((kind) => nameInCpp(kind.toUpperCase().replace('-', '_')));
    expect([...enumOf('core/table/registry.h', 'LockKind').keys()]).toEqual(kinds);
  });

  it('has a separate cell in the header, behind its integers', () => {
    const cells = [TOKEN_CELL, ...Object.values(METRIC_CELLS)];
    expect(new Set(cells).size).toBe(cells.length);
    // The registry's name takes two integers, and a cell is two.
    expect(Math.min(...cells)).toBeGreaterThanOrEqual((REGISTRY_INDEX + 2) / 2);
    expect(Math.max(...cells)).toBeLessThan(HEADER_INTS / 2);
  });

  it('needs no more than its cell for stats() to show it, on both engines, up to the last cell of the header', async () => {
    const last = HEADER_INTS / 2 - 1;
    const copy = await copyForTest({
      addon: 'link',
      changes: {
        'engine/contract/layout.js': (text) =>
          text.replace('METRIC_CELLS = {', `METRIC_CELLS = { ninth: 22, last: ${last},`),
      },
    });
    const { code, stdout, stderr } = await runProgram('stats-keys.mjs', [copy]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const all = JSON.parse(stdout) as Record<string, unknown>[];
    expect(all.map(({ engine }) => engine)).toEqual(['native', 'javascript']);
    for (const stats of all) {
      expect(Object.keys(stats).sort()).toEqual([...NOT_COUNTED, ...declared, 'ninth', 'last'].sort());
      expect(stats).toMatchObject({ ninth: 0, last: 0, contended: 0 });
    }
  });
});
