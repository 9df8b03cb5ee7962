/**
 * The location of the module that profiles a whole program. In the published package it is a separate file,
 * loaded only on request: `scripts/build/places.mjs` replaces this module.
 */
export function programFile(): string {
  return new URL('whole-program.js', import.meta.url).href;
}
