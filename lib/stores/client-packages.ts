import { codeOf } from '../common/errors.js';

/** A package that the user has installed. */
export interface ClientPackage<N extends string> {
  readonly name: N;
  /** The package's exports, as `require` returns them. */
  readonly exports: unknown;
}

/**
 * Loads the first of these packages that is installed, either beside this package or in the working
 * directory. Returns undefined if none is installed.
 */
export function loadClientPackage<N extends string>(names: readonly N[]): ClientPackage<N> | undefined {
  // This code gets `createRequire` through `process`, because webpack replaces calls that it recognizes as
  // `createRequire` (see `binaries.ts`).
  const { createRequire } = process.getBuiltinModule('node:module');
  // In a CommonJS bundle made by esbuild, `import.meta` is empty, so its `url` is undefined.
  const here = import.meta.url as string | undefined;
  for (const from of [here, `${process.cwd()}/`]) {
    if (from === undefined) continue;
    const load = createRequire(from);
    for (const name of names) {
      try {
        return { name, exports: load(name) };
      } catch (error) {
        if (codeOf(error) !== 'MODULE_NOT_FOUND') throw error;
      }
    }
  }
  return undefined;
}
