import path from 'node:path';

/** What `addon.cjs` in the folder of the package exports. */
export interface Binaries {
  readonly protocol: number;
  readonly folder: string;
  readonly prebuilt: Readonly<Partial<Record<string, () => object>>>;
  readonly compiled: () => object;
}

/** The step of Node's loader that comes after it has found a binary. */
export interface LoaderByPath {
  /** The package's. */
  readonly folder: string;
  /** Returns what the file exports, once for each thread. Throws if it does not load. */
  readonly load: (file: string) => object;
}

/**
 * What loads a binary without looking anything up, if this module is a file of the installed package and Node's own loader
 * has loaded it: finding `addon.cjs`, and then the binary, would take a thread longer than the binary. Undefined
 * otherwise, as in a bundle or in the registry of a test runner. Only the CommonJS files of the package can tell, so
 * `scripts/build/places.mjs` has another function for those.
 */
export function loaderByPath(): LoaderByPath | undefined {
  return undefined;
}

/**
 * The binaries of the installed package, found by its name: this module may have become part of a bundle in another
 * folder. In the CommonJS files of the package `scripts/build/places.mjs` puts a literal `require` in place of this
 * module, because those are never bundled and tools must see where it leads.
 */
export function binaries(): Binaries {
  // Not imported: webpack replaces what it knows to be this function, and then fails where the argument is not literal.
  const { createRequire } = process.getBuiltinModule('node:module');
  let failure: unknown;
  for (const place of places()) {
    const require = createRequire(place);
    let manifest: string;
    try {
      manifest = require.resolve('stripelock/package.json');
    } catch (error) {
      failure ??= error;
      continue;
    }
    return require(path.join(path.dirname(manifest), 'addon.cjs')) as Binaries;
  }
  throw failure;
}

/**
 * Where to look from: from this module's place, and then from the program's. webpack writes this module's place on the
 * machine that makes the bundle into it, and in a CommonJS bundle of esbuild `import.meta` is empty, and `__filename` is
 * the bundle.
 */
function places(): string[] {
  const here = (import.meta.url as string | undefined) ?? __filename;
  const program = process.argv[1];
  return program !== undefined && path.isAbsolute(program) ? [here, program] : [here];
}
