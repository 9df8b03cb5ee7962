import path from 'node:path';

/** The exports of `addon.cjs` in the package's folder. */
export interface Binaries {
  readonly protocol: number;
  readonly folder: string;
  readonly prebuilt: Readonly<Partial<Record<string, () => object>>>;
  readonly compiled: () => object;
}

/** The part of Node's loader that loads a binary whose path is known. */
export interface LoaderByPath {
  /** The package's folder. */
  readonly folder: string;
  /** Returns the exports of the file; the same object for each call in a thread. Throws if it does not load. */
  readonly load: (file: string) => object;
}

/**
 * A loader that skips all lookups: finding `addon.cjs` and the binary takes a thread longer than loading the binary. It
 * exists only if this module is a file of the installed package, loaded by Node's own loader. In bundles and test
 * runners it is undefined. Only the package's CommonJS files can detect this, so `scripts/build/places.mjs` replaces
 * this function there.
 */
export function loaderByPath(): LoaderByPath | undefined {
  return undefined;
}

/**
 * The binaries of the installed package, found by its name, because this module may be part of a bundle in another
 * folder. In the package's CommonJS files `scripts/build/places.mjs` replaces this module by a literal `require`: those
 * files are never bundled, and tools must see the dependency.
 */
export function binaries(): Binaries {
  // Loaded indirectly: webpack replaces calls that it recognises as `createRequire`, and then fails because the
  // argument is not a literal.
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
 * The places to search: this module's file, then the program's. A bundle made by webpack contains this module's path on
 * the build machine. In a CommonJS bundle made by esbuild `import.meta` is empty, and `__filename` is the bundle.
 */
function places(): string[] {
  const here = (import.meta.url as string | undefined) ?? __filename;
  const program = process.argv[1];
  return program !== undefined && path.isAbsolute(program) ? [here, program] : [here];
}
