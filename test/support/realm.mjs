// A separate module registry in a separate context, like those of test runners. Evaluates every module of this package
// again, but neither Node's own modules nor those of other packages. Needs --experimental-vm-modules.
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';

/** Globals that are not part of the language, but exist in every realm of a test runner for Node. */
const GLOBALS = [
  'AbortController',
  'AbortSignal',
  'Buffer',
  'URL',
  'clearTimeout',
  'crypto',
  'performance',
  'process',
  'queueMicrotask',
  'setImmediate',
  'setTimeout',
  'structuredClone',
];

/** @param {string} entry A URL. */
export async function evaluateInRealm(entry) {
  const context = vm.createContext(
    Object.fromEntries(GLOBALS.map((name) => [name, /** @type {any} */ (globalThis)[name]])),
  );
  const modules = new Map();
  const outside = async (/** @type {string} */ name) => {
    const require = createRequire(entry);
    const exports = name.startsWith('node:') ? await import(name) : { default: require(name) };
    const names = Object.keys(exports);
    return new vm.SyntheticModule(
      names,
      function () {
        for (const key of names) this.setExport(key, exports[key]);
      },
      { context },
    );
  };
  const inside = async (/** @type {string} */ url) =>
    new vm.SourceTextModule(await readFile(fileURLToPath(url), 'utf8'), {
      context,
      identifier: url,
      initializeImportMeta: (meta) => {
        meta.url = url;
      },
    });
  const load = (/** @type {string} */ specifier, /** @type {string} */ from = entry) => {
    const url = specifier.startsWith('.') ? new URL(specifier, from).href : specifier;
    if (!modules.has(url)) modules.set(url, url.startsWith('file:') ? inside(url) : outside(url));
    return modules.get(url);
  };
  const root = await load(entry);
  await root.link((/** @type {string} */ specifier, /** @type {{ identifier: string }} */ { identifier }) =>
    load(specifier, identifier),
  );
  await root.evaluate();
  return root.namespace;
}
