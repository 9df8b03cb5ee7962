/**
 * The file with the code of the renewing thread. The published package has it in a different place, beside
 * the file with all other code. So `scripts/build/bundle.mjs` replaces this module.
 */
export function workerFile(): string | URL {
  return new URL('./renewing-worker.js', import.meta.url);
}
