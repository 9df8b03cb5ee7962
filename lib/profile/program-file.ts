/**
 * Where the module is that takes a profile of a whole program. In what ships it is another file, which only programs load that
 * ask for it: `scripts/build/places.mjs` replaces this module.
 */
export function programFile(): string {
  return new URL('whole-program.js', import.meta.url).href;
}
