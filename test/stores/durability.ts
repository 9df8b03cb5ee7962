import { expect } from 'vitest';
import type { postgresLeaseStore } from 'stripelock/postgres';

/** A store over tables. */
type Store = Pick<
  ReturnType<typeof postgresLeaseStore>,
  'tryAcquire' | 'tryAcquireAll' | 'renew' | 'inspect'
>;

/** Milliseconds. A short lease would expire while the server starts. */
const LONG = 600_000;

/** Kills the server right after grants and a renewal, and expects all of them after its start. `using` opens a store for one use. */
export async function expectGrantsToOutlive(
  server: { kill(): Promise<unknown>; start(): Promise<unknown> },
  using: <T>(use: (store: Store) => Promise<T>) => Promise<T>,
): Promise<void> {
  await using((store) => store.inspect('key'));
  for (let i = 0; i < 3; i++) {
    const several = [`x${i}`, `y${i}`];
    await using(async (store) => {
      await store.tryAcquire(`renewed${i}`, 'a', 5000);
      await store.tryAcquireAll(several, 'a', LONG);
      await store.tryAcquire(`key${i}`, 'a', LONG);
      await store.renew(`renewed${i}`, 'a', LONG);
      await server.kill();
    });
    await server.start();
    await using(async (store) => {
      expect(await store.tryAcquire(`key${i}`, 'b', LONG)).toBeUndefined();
      expect((await store.inspect(`renewed${i}`))!.remaining).toBeGreaterThan(LONG / 2);
      expect(await store.tryAcquireAll([...several].reverse(), 'b', LONG)).toBe(0);
    });
  }
}
