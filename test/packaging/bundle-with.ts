// One bundle of a program with each bundler, with as few options as it takes to build for Node.
import { nodeResolve } from '@rollup/plugin-node-resolve';
import esbuild from 'esbuild';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { rollup } from 'rollup';
import { build as vite } from 'vite';
import { loadTool } from '../../scripts/large-tools.mjs';

export interface BundleOptions {
  readonly entry: string;
  /** The folder of the bundle. */
  readonly to: string;
  /** Whether `stripelock` is left out, as docs/hosts-and-bundlers.md says. */
  readonly external?: boolean;
  readonly sourcemap?: boolean;
}

/** Resolves to the bundle, and what the bundler had to say. */
export type Bundler = (options: BundleOptions) => Promise<{ file: string; said: string }>;

const NAME = 'stripelock';

const withEsbuild =
  (format: 'esm' | 'cjs', minify = false): Bundler =>
  async ({ entry, to, external = false, sourcemap = false }) => {
    const file = path.join(to, format === 'esm' ? 'main.mjs' : 'main.cjs');
    const { warnings } = await esbuild.build({
      entryPoints: [entry],
      bundle: true,
      platform: 'node',
      format,
      minify,
      outfile: file,
      logLevel: 'silent',
      external: external ? [NAME] : [],
      sourcemap: sourcemap ? 'inline' : false,
    });
    return { file, said: warnings.map(({ text }) => text).join('\n') };
  };

const withRollup =
  (format: 'es' | 'cjs'): Bundler =>
  async ({ entry, to, external = false, sourcemap = false }) => {
    const file = path.join(to, format === 'es' ? 'main.mjs' : 'main.cjs');
    const said: string[] = [];
    const bundle = await rollup({
      input: entry,
      plugins: [nodeResolve({ preferBuiltins: true })],
      external: external ? [NAME] : [],
      onLog: (_level, { message }) => void said.push(message),
    });
    await bundle.write({ file, format, sourcemap: sourcemap ? 'inline' : false });
    await bundle.close();
    return { file, said: said.join('\n') };
  };

/** A part of webpack. */
interface Compiler {
  run(done: (error: Error | null, stats?: Stats) => void): void;
  close(done: () => void): void;
}
interface Stats {
  hasErrors(): boolean;
  toString(options: object): string;
}

const withWebpack =
  (module: boolean): Bundler =>
  async ({ entry, to, external = false }) => {
    const filename = module ? 'main.mjs' : 'main.cjs';
    const { default: webpack } = (await loadTool('webpack/lib/index.js')) as {
      default: (options: object) => Compiler;
    };
    const compiler = webpack({
      mode: 'production',
      target: 'node20',
      entry,
      output: { path: to, filename, ...(module ? { module, chunkFormat: 'module' } : {}) },
      ...(module ? { experiments: { outputModule: true } } : {}),
      externals: external ? { [NAME]: `${module ? 'module' : 'commonjs'} ${NAME}` } : {},
    });
    return new Promise((resolve, reject) => {
      compiler.run((error, stats) => {
        compiler.close(() => {
          const said = stats?.toString({ all: false, errors: true, warnings: true }) ?? '';
          if (error !== null || stats?.hasErrors() === true) reject(error ?? new Error(said));
          else resolve({ file: path.join(to, filename), said });
        });
      });
    });
  };

/** vite leaves packages out of a server build by default. */
const withVite: Bundler = async ({ entry, to, external = false }) => {
  const said: string[] = [];
  await vite({
    root: path.dirname(entry),
    configFile: false,
    customLogger: {
      info: () => undefined,
      warn: (message) => void said.push(message),
      warnOnce: (message) => void said.push(message),
      error: (message) => void said.push(message),
      clearScreen: () => undefined,
      hasErrorLogged: () => false,
      hasWarned: false,
    },
    ...(external ? {} : { ssr: { noExternal: true } }),
    build: { ssr: entry, outDir: to, emptyOutDir: true },
  });
  const [file] = readdirSync(to).filter((name) => /^main\.m?js$/.test(name));
  return { file: path.join(to, file!), said: said.join('\n') };
};

export const bundlers: Readonly<Record<string, Bundler>> = {
  'esbuild, to a module': withEsbuild('esm'),
  'esbuild, to CommonJS': withEsbuild('cjs'),
  'esbuild, minified': withEsbuild('cjs', true),
  'rollup, to a module': withRollup('es'),
  'rollup, to CommonJS': withRollup('cjs'),
  'webpack, to CommonJS': withWebpack(false),
  'webpack, to a module': withWebpack(true),
  vite: withVite,
};
