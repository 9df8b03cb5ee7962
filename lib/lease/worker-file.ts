/**
 * Where the code of the renewing thread is. In what ships it is another file, beside all of the package's code:
 * `scripts/build/bundle.mjs` replaces this module.
 */
export function workerFile(): string | URL {
  return new URL('./renewing-worker.js', import.meta.url);
}
