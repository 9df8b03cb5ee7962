/**
 * Files that several processes change without losing an update.
 *
 * @module stripelock/file
 */

export { LockedFile, type MaybeNew, type NewValues } from './file/locked-file.js';
export type { LockedFileOptions, LockedFileUpdateOptions, LockedRawFileOptions } from './file/options.js';
