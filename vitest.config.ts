import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    maxWorkers: 2,
    retry: 0,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Tests and their threads use the built package, as users do. Node must load `stripelock` itself, once: vite must
    // not transform a copy of it.
    server: { deps: { external: [/\/dist\//] } },
  },
});
