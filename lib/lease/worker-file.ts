/**
 * Returns the file with the code of the renewing thread. In the published package, that file is in a
 * different place, beside the bundled code. So `scripts/build/bundle.mjs` replaces this module.
 */
export function workerFile(): string | URL {
  return new URL('./renewing-worker.js', import.meta.url);
}
