import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const root = path.resolve(import.meta.dirname, '..');

interface Edge {
  /** The imported file of the package ('lib/common/errors.ts') or module ('node:fs'). */
  to: string;
  typeOnly: boolean;
}
type Graph = Map<string, Edge[]>;

// ── TypeScript ──

function typescriptEdges(file: string, text: string): Edge[] {
  const edges: Edge[] = [];
  const add = (specifier: ts.Node | undefined, typeOnly: boolean): void => {
    if (specifier === undefined || !ts.isStringLiteralLike(specifier)) return;
    const to = specifier.text.startsWith('.')
      ? path.posix.join(path.posix.dirname(file), specifier.text).replace(/\.js$/, '.ts')
      : specifier.text;
    edges.push({ to, typeOnly });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) {
      add(node.moduleSpecifier, node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword);
    }
    if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, node.isTypeOnly);
    if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node.argument.literal, true);
    if (ts.isCallExpression(node)) {
      const callee = node.expression;
      const loads =
        callee.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(callee) && callee.text === 'require');
      if (loads) add(node.arguments[0], false);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  return edges;
}

interface Layer {
  /** The first that matches a file counts. */
  of: RegExp;
  /** The files of the package that its files may import besides their own folder. */
  may: string;
}

const layers: Layer[] = [
  { of: /^lib\/common\//, may: '' },
  { of: /^lib\/engine\/contract\//, may: 'common/' },
  // An engine, or what both use: no engine knows the other.
  { of: /^lib\/engine\/\w+\//, may: 'common/|engine/contract/' },
  { of: /^lib\/engine\//, may: 'common/|engine/' },
  // Only to start the profile that an environment variable requests.
  { of: /^lib\/lock\/handle\.ts$/, may: 'common/|engine/|lock/|profile/requested\\.ts' },
  { of: /^lib\/lock\//, may: 'common/|engine/' },
  { of: /^lib\/profile\//, may: 'common/|engine/' },
  { of: /^lib\/web-locks\//, may: 'common/|engine/' },
  // Acquires as locks do, with the same options and kinds of keys.
  { of: /^lib\/process\//, may: 'common/|engine/|lock/' },
  // The contract between managers and stores.
  { of: /^lib\/file\//, may: 'common/|process/' },
  { of: /^lib\/lease\/contract\//, may: 'common/' },
  // As for locks.
  { of: /^lib\/lease\/contention\.ts$/, may: 'common/|engine/|lease/|profile/requested\\.ts' },
  // Elects over either.
  { of: /^lib\/lease\/leader-election\.ts$/, may: 'common/|lease/|process/' },
  { of: /^lib\/lease\//, may: 'common/|engine/|lease/' },
  // A store knows leases by the contract that it implements, and no other store.
  { of: /^lib\/stores\/[\w-]+\//, may: 'common/|stores/[\\w-]+\\.ts|lease/contract/' },
  { of: /^lib\/stores\//, may: 'common/|lease/contract/' },
  // Tools for tests of a store: they know stores by their contract, and managers, which run on any store.
  { of: /^lib\/testing\//, may: 'common/|lease/contract/|lease/(manager|revoke)\\.ts' },
  // The command, which nothing imports.
  { of: /^lib\/command\//, may: 'common/|engine/|lease/|process/|stores/' },
  { of: /^lib\/index\.ts$/, may: 'common/|lock/|lease/' },
  { of: /^lib\/web-locks\.ts$/, may: 'common/|web-locks/' },
  { of: /^lib\/metrics\//, may: 'common/|engine/' },
  { of: /^lib\/metrics\.ts$/, may: 'metrics/' },
  { of: /^lib\/profile\.ts$/, may: 'common/|profile/' },
  { of: /^lib\/process\.ts$/, may: 'common/|process/' },
  { of: /^lib\/file\.ts$/, may: 'file/' },
  { of: /^lib\/[\w-]+\.ts$/, may: 'testing/|stores/' },
];

/** The only folder that knows the addon. */
const nativeEngine = /^lib\/engine\/native\//;
/** The only file that loads client libraries, which users of stores install. */
const clientLoader = /^lib\/stores\/client-packages\.ts$/;

/** The only files that need a package, which becomes part of the bundle. */
const bundled = new Map([
  ['lib/file/formats.ts', 'jsonc-parser'],
  ['lib/profile/pprof.ts', 'pprof-format'],
]);

function mayImport(file: string, to: string): boolean {
  const layer = layers.find(({ of }) => of.test(file));
  if (layer === undefined) return false;
  const entry = /^lib\/[^/]+$/;
  if (path.posix.dirname(to) === path.posix.dirname(file)) return !entry.test(to);
  return layer.may !== '' && new RegExp(`^lib/(${layer.may})`).test(to);
}

function typescriptViolations(graph: Graph): string[] {
  const wrong: string[] = [];
  for (const [file, edges] of graph) {
    for (const { to, typeOnly } of edges) {
      const inside = to.startsWith('lib/');
      // A client of a store is the caller's own object: its types may be named, the client never loaded.
      const outside =
        to.startsWith('node:') ||
        to === bundled.get(file) ||
        (to === 'bindings' && nativeEngine.test(file)) ||
        (typeOnly && !inside);
      const allowed = inside ? mayImport(file, to) : outside;
      if (!allowed) wrong.push(`${file} must not import ${to}`);
    }
  }
  return wrong;
}

/** Imports that lead back to where they started. Within a folder, types may refer to each other. */
function cycles(graph: Graph): string[] {
  const found: string[] = [];
  const finished = new Set<string>();
  const visit = (file: string, trail: string[]): void => {
    if (trail.includes(file)) {
      found.push([...trail.slice(trail.indexOf(file)), file].join(' → '));
      return;
    }
    if (finished.has(file)) return;
    for (const { to, typeOnly } of graph.get(file) ?? []) {
      if (!typeOnly || path.posix.dirname(to) !== path.posix.dirname(file)) visit(to, [...trail, file]);
    }
    finished.add(file);
  };
  for (const file of graph.keys()) visit(file, []);
  return found;
}

/** The same imports as from folder to folder. */
function foldersOf(graph: Graph): Graph {
  const folders: Graph = new Map();
  for (const [file, edges] of graph) {
    const folder = path.posix.dirname(file);
    const needs = edges
      .map(({ to }) => ({ to: path.posix.dirname(to), typeOnly: false }))
      .filter(({ to }) => to.startsWith('lib') && to !== folder);
    folders.set(folder, [...(folders.get(folder) ?? []), ...needs]);
  }
  return folders;
}

// ── C++ ──

/** Own files are quoted, and named from native/ on; everything else counts as <angled>, xxhash.h in any case. */
function includeEdges(text: string): Edge[] {
  return [...text.matchAll(/^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)/gm)].map(
    ([, quoted, angled]) => ({
      to: quoted === undefined || quoted === 'xxhash.h' ? `<${quoted ?? angled ?? ''}>` : quoted,
      typeOnly: false,
    }),
  );
}

const hostHeader = /^<(node|napi|js_native|uv|v8|cppgc|libplatform)([./_-].*)?>$/;

/** The folders of the core, each with the others whose headers it may include. */
const coreFolders: Record<string, readonly string[]> = {
  base: [],
  table: ['base'],
  files: ['base', 'table'],
  leases: ['base', 'table'],
  web_locks: ['base', 'table'],
};

const coreRules = Object.entries(coreFolders).map(([folder, others]): [string, (to: string) => boolean] => [
  `native/core/${folder}/`,
  (to) =>
    to.startsWith('<')
      ? !hostHeader.test(to)
      : [folder, ...others].some((allowed) => to.startsWith(`core/${allowed}/`)),
]);

const nativeRules: Record<string, (to: string) => boolean> = {
  ...Object.fromEntries(coreRules),
  'native/core.cc': (to) => /^core\/\w+\/\w+\.cc$/.test(to),
  'native/node.cc': (to) => /^node\/\w+\.cc$/.test(to),
  'native/test/': (to) => (to.startsWith('<') ? !hostHeader.test(to) : /^(core|test)\//.test(to)),
  // Node-API only: a header of V8, libuv or Node would tie the binary to one version of Node.
  'native/node/': (to) =>
    to.startsWith('<')
      ? !hostHeader.test(to) || /^<(napi|node_api)\.h>$/.test(to)
      : /^(core|node)\//.test(to),
};

function nativeViolations(graph: Graph): string[] {
  const wrong: string[] = [];
  for (const [file, edges] of graph) {
    const rule = Object.entries(nativeRules).find(([folder]) => file.startsWith(folder))?.[1];
    for (const { to } of edges) if (rule?.(to) !== true) wrong.push(`${file} must not include ${to}`);
  }
  return wrong;
}

// ── files ──

function filesUnder(folder: string, extension: RegExp): string[] {
  if (!existsSync(path.join(root, folder))) return [];
  return readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => extension.test(name))
    .map((name) => `${folder}/${name.replaceAll('\\', '/')}`)
    .sort();
}
const read = (file: string): string => readFileSync(path.join(root, file), 'utf8');
const graphOf = (files: string[], edges: (file: string, text: string) => Edge[]): Graph =>
  new Map(files.map((file) => [file, edges(file, read(file))]));

describe('lib', () => {
  const graph = graphOf(filesUnder('lib', /\.ts$/), typescriptEdges);

  it('imports only downwards, and from outside only node and the addon', () => {
    expect(graph.size).toBeGreaterThan(5);
    expect(typescriptViolations(graph)).toEqual([]);
  });

  it('has no cycle of imports, of files or of folders, but of types within a folder', () => {
    expect(cycles(graph)).toEqual([]);
    expect(cycles(foldersOf(graph))).toEqual([]);
  });

  it('loads the addon in the native engine alone', () => {
    const loaders = [...graph.keys()].filter((file) =>
      /\bbindings\b['"]|createRequire|process\.dlopen|\.node['"`]/.test(read(file)),
    );
    expect(loaders.filter((file) => !nativeEngine.test(file) && !clientLoader.test(file))).toEqual([]);
    expect(loaders.length).toBeGreaterThan(0);
  });
});

describe('native', () => {
  const graph = graphOf(filesUnder('native', /\.(cc|h)$/), (_file, text) => includeEdges(text));

  it('keeps the core free of Node and its folders in order, and the node layer on Node-API', () => {
    expect([...graph.keys()].some((file) => file.startsWith('native/core/'))).toBe(true);
    expect([...graph.keys()].some((file) => file.startsWith('native/node/'))).toBe(true);
    expect(nativeViolations(graph)).toEqual([]);
  });

  it('has no cycle of headers', () => {
    const headers = [...graph].filter(([file]) => file.endsWith('.h'));
    const named = headers.map(([file, edges]): [string, Edge[]] => [
      file,
      edges.map((edge) => ({ ...edge, to: `native/${edge.to}` })),
    ]);
    expect(cycles(new Map(named))).toEqual([]);
  });
});

describe('the check itself refuses', () => {
  it.each([
    ['lib/common/errors.ts', `export { createTable } from '../engine/select.js';`],
    ['lib/engine/contract/layout.ts', `import { NativeEngine } from '../native/engine.js';`],
    ['lib/engine/javascript/engine.ts', `import { NativeEngine } from '../native/engine.js';`],
    ['lib/engine/javascript/engine.ts', `import { createTable } from '../select.js';`],
    ['lib/engine/javascript/engine.ts', `import { Guard } from '../../lock/guard.js';`],
    ['lib/engine/select.ts', `import type { StripedLock } from '../lock/striped-lock.js';`],
    ['lib/lock/guard.ts', `import { LeaseManager } from '../lease/manager.js';`],
    ['lib/lock/guard.ts', `const lease = await import('../lease/manager.js');`],
    ['lib/lock/guard.ts', `import { StripedLock } from '../index.js';`],
    ['lib/web-locks/manager.ts', `import { StripedLock } from '../lock/striped-lock.js';`],
    ['lib/index.ts', `import { locks } from './web-locks/manager.js';`],
    ['lib/process/process-lock.ts', `import { LeaseManager } from '../lease/manager.js';`],
    ['lib/lock/keyed-lock.ts', `import { ProcessLock } from '../process/process-lock.js';`],
    ['lib/lock/striped-lock.ts', `import bindings from 'bindings';`],
    ['lib/lock/striped-lock.ts', `import lodash from 'lodash';`],
    ['lib/lease/manager.ts', `import { StripedLock } from '../lock/striped-lock.js';`],
    ['lib/lease/contract/lease-store.ts', `import type { LeaseManager } from '../manager.js';`],
    ['lib/stores/redis/store.ts', `import { NativeEngine } from '../../engine/native/engine.js';`],
    ['lib/stores/redis/store.ts', `import { SqliteStore } from '../sqlite/store.js';`],
    ['lib/stores/some-store/store.ts', `import type { Lease } from '../../lease/lease.js';`],
    ['lib/stores/redis/store.ts', `import { Redis } from 'ioredis';`],
    ['lib/stores/redis/store.ts', `import { LeaseManager } from '../../lease/manager.js';`],
    ['lib/index.ts', `import { Redis } from 'ioredis';`],
    ['lib/index.ts', `import { sqliteLeaseStore } from './sqlite.js';`],
    ['lib/command/run.ts', `import { StripedLock } from '../lock/striped-lock.js';`],
    ['lib/index.ts', `import { run } from './command/run.js';`],
    ['lib/redis.ts', `import { LeaseManager } from './lease/manager.js';`],
    ['lib/anything/file.ts', `const x: import('../lock/striped-lock.js').StripedLock = y;`],
  ])('in %s: %s', (file, text) => {
    expect(typescriptViolations(new Map([[file, typescriptEdges(file, text)]]))).toHaveLength(1);
  });

  it.each([
    ['native/core/table/table.h', '#include <napi.h>'],
    ['native/core/table/table.cc', '#include <node_api.h>'],
    ['native/core/table/table.cc', '  #  include <uv.h>'],
    ['native/core/table/table.cc', '#include "node/environment.h"'],
    ['native/core/table/table.cc', '#include "table.h"'],
    ['native/core/base/hash.h', '#include "core/table/mode.h"'],
    ['native/core/table/table.h', '#include "core/files/lock_file.h"'],
    ['native/core/leases/lease_table.h', '#include "core/web_locks/web_locks.h"'],
    ['native/core/new_file.h', '#include "core/base/sync.h"'],
    ['native/node/addon.cc', '#include <v8.h>'],
    ['native/node/addon.cc', '#include "test/helpers.h"'],
    ['native/test/table_test.cc', '#include "node/environment.h"'],
  ])('in %s: %s', (file, text) => {
    expect(nativeViolations(new Map([[file, includeEdges(text)]]))).toHaveLength(1);
  });

  it.each(['import', 'import type'])('a cycle by %s, of files and of folders', (keyword) => {
    const graph: Graph = new Map([
      ['lib/a/one.ts', typescriptEdges('lib/a/one.ts', `${keyword} { two } from '../b/two.js';`)],
      ['lib/b/two.ts', typescriptEdges('lib/b/two.ts', `export * from '../a/one.js';`)],
    ]);
    expect(cycles(graph)).toEqual(['lib/a/one.ts → lib/b/two.ts → lib/a/one.ts']);
    expect(cycles(foldersOf(graph))).toEqual(['lib/a → lib/b → lib/a']);
  });

  it('a cycle of values within a folder, but not one of types', () => {
    const graphWith = (keyword: string): Graph =>
      new Map([
        ['lib/a/one.ts', typescriptEdges('lib/a/one.ts', `${keyword} { two } from './two.js';`)],
        ['lib/a/two.ts', typescriptEdges('lib/a/two.ts', `import { one } from './one.js';`)],
      ]);
    expect(cycles(graphWith('import'))).toEqual(['lib/a/one.ts → lib/a/two.ts → lib/a/one.ts']);
    expect(cycles(graphWith('import type'))).toEqual([]);
  });
});
