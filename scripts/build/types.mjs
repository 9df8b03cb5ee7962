// Bundles declarations.

import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';

/**
 * Libraries that the declarations use and a program may not have in its `lib`: for `Symbol.dispose`, `ErrorOptions`, and memory
 * that threads share.
 */
const LIBRARIES = ['esnext.disposable', 'es2022.error', 'es2017.sharedmemory', 'es2020.bigint']
  .map((name) => `/// <reference lib="${name}" />\n`)
  .join('');

/**
 * Resolves to the declarations of an entry point and of all that it needs, as one text.
 *
 * @param {string} input A file of declarations.
 */
export async function bundleTypes(input) {
  const bundle = await rollup({
    input,
    external: /^node:/,
    plugins: [dts()],
    onLog: (_level, { message }) => {
      throw new Error(message);
    },
  });
  const { output } = await bundle.generate({ format: 'es' });
  await bundle.close();
  return LIBRARIES + output[0].code;
}
