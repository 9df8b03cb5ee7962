// Bundles declarations.

import { rollup } from 'rollup';
import { dts } from 'rollup-plugin-dts';

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
  return output[0].code;
}
