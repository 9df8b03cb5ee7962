import { createRequire } from 'node:module';
import path from 'node:path';

/** What `addon.cjs` in the folder of the package exports. */
export interface Binaries {
  readonly protocol: number;
  readonly folder: string;
  readonly prebuilt: Readonly<Partial<Record<string, () => object>>>;
  readonly compiled: () => object;
}

/**
 * The binaries of the installed package, found by its name: this module may have become part of a bundle in another
 * folder. In the CommonJS files of the package `scripts/build/bundle.mjs` puts a literal `require` in place of this
 * module, because those are never bundled and tools must see where it leads.
 */
export function binaries(): Binaries {
  // In a CommonJS bundle of esbuild `import.meta` is empty, and `__filename` is the bundle.
  const here = (import.meta.url as string | undefined) ?? __filename;
  const require = createRequire(here);
  const folder = path.dirname(require.resolve('stripelock/package.json'));
  return require(path.join(folder, 'addon.cjs')) as Binaries;
}
