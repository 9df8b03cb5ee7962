import path from 'node:path';

/** The exports of `addon.cjs` in the package's folder. */
export interface Binaries {
  readonly protocol: number;
  readonly folder: string;
  readonly prebuilt: Readonly<Partial<Record<string, () => object>>>;
  readonly compiled: () => object;
}

/** Loads a binary from a known path with Node's own loader. */
export interface LoaderByPath {
  /** The package's folder. */
  readonly folder: string;
  /**
   * Returns the exports of the file. All calls in a thread return the same object. Throws if the file does
   * not load.
   */
  readonly load: (file: string) => object;
}

/**
 * Returns a loader that loads a binary by its path, without the search that {@link binaries} makes. For a
 * thread, the search for `addon.cjs` and the binary would take longer than loading the binary.
 *
 * The loader exists only if this module is a file of the installed package, and Node's own loader loaded it.
 * In bundles and test runners the result is undefined. Only the package's CommonJS files can detect whether
 * the loader exists. In these files, `scripts/build/places.mjs` replaces this function by one with such a
 * check.
 */
export function loaderByPath(): LoaderByPath | undefined {
  return undefined;
}

/**
 * Returns the binaries of the installed package. This function searches for the package by name, because this
 * module may be part of a bundle in another folder.
 *
 * In the package's CommonJS files, `scripts/build/places.mjs` replaces this function by a literal `require`,
 * so that tools detect the dependency.
 */
export function binaries(): Binaries {
  // `createRequire` is loaded indirectly, so that webpack does not recognise the call. Otherwise webpack
  // would replace the call, and fail because the argument is not a literal.
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
 * The files from which to search for the package: this module's file, then the program's file. The program's
 * file is needed in a bundle made by webpack, where this module's path is a path on the build machine. In a
 * CommonJS bundle made by esbuild, `import.meta` is empty, and `__filename` is the path of the bundle.
 */
function places(): string[] {
  const here = (import.meta.url as string | undefined) ?? __filename;
  const program = process.argv[1];
  return program !== undefined && path.isAbsolute(program) ? [here, program] : [here];
}
