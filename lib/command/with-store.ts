// The subcommands that use a store. `scripts/build/bundle.mjs` makes a separate file of them.

export { leases } from './leases.js';
export { runWithLease } from './run-with-lease.js';
