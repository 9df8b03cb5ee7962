// The subcommands that use a store. `scripts/build/bundle.mjs` builds a separate file from this module.

export { leases } from './leases.js';
export { runWithLease } from './run-with-lease.js';
