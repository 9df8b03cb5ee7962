import os from 'node:os';

import { defineConfig } from 'vitest/config';

/**
 * What `npm test` leaves to `npm run test:slow`, as it takes more than half of the processor time: what packs, installs,
 * compiles or measures, what many processes or threads do for long, and the contract of locks on memory of their own.
 */
const slow = [
  'test/bench/{against,verification}.test.ts',
  'test/docs/{browser,site}.test.ts',
  'test/engine/native/binary.test.ts',
  'test/examples/ledger-hot.test.ts',
  'test/features/*.test.ts',
  'test/hosts.test.ts',
  'test/packaging/**/*.test.ts',
  'test/robustness/blocked-threads.test.ts',
  'test/soak/*.test.ts',
  'test/stores/{etcd,mysql,postgres}-pairs.test.ts',
];

/** Of the slow ones, those that look at times: they come last, when nothing compiles beside them any more. */
const faults = [
  'test/soak/faults/**/*.test.ts',
  'test/engine/native/own-memory.test.ts',
  'test/leases/background-thread.test.ts',
  'test/robustness/churn.test.ts',
  'test/stores/{dynamodb,etcd,mongodb,mysql,redis}-background.test.ts',
];

const processors = os.availableParallelism();

export default defineConfig({
  test: {
    pool: 'forks',
    maxWorkers: processors,
    retry: 0,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // What `expect.poll` waits for comes; the time only ends a test in which it never does.
    expect: { poll: { timeout: 30_000 } },
    // Tests and their threads use the built package, as users do. Node must load `stripelock` itself, once: vite must
    // not transform a copy of it.
    server: { deps: { external: [/\/dist\//] } },
    projects: [
      {
        extends: true,
        test: {
          name: 'quick',
          include: ['test/**/*.test.ts'],
          exclude: [...slow, ...faults, '**/node_modules/**'],
          // These wait for half of their time.
          maxWorkers: 2 * processors,
        },
      },
      { extends: true, test: { name: 'slow', include: slow, sequence: { groupOrder: 1 } } },
      { extends: true, test: { name: 'faults', include: faults, sequence: { groupOrder: 2 } } },
    ],
  },
});
