import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 2,
    retry: 0,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // The tests use the built package, as its users do, and so do the threads that they start: `stripelock` must be
    // node's own module, loaded once, and never a copy transformed by vite.
    server: { deps: { external: [/\/dist\//] } },
  },
});
