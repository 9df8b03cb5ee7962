import path from 'node:path';

/** The environment variable that names the folder of another build to measure. Threads and processes inherit it. */
export const PACKAGE = 'STRIPELOCK_BENCH_PACKAGE';

/** The folder of the package that is measured: this checkout's, or the one that a comparison of two builds names. */
export const PACKAGE_FOLDER = process.env[PACKAGE] ?? path.resolve(import.meta.dirname, '../..');
