import type { Connection } from 'mysql2/promise';
import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import { LeaseManager, type Lease, type LeaseStore } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { turns } from '../support/waiting.js';
import { mysqlConnections, MysqlScene } from './mysql-setup.js';
import { postgresLibraries, PostgresScene } from './postgres-setup.js';
import { redisLibraries, RedisScene } from './redis-setup.js';

const LEASES = 2000;
/** Milliseconds. On the manager's clock each lease is renewed once a second; on the server's none expires. */
const [TTL, EVERY, STEP] = [600_000, 1000, 10];

/** Has all calls of a method counted. `settled`: when all that were made are answered. */
function counting(target: object, method: string): { count: number; settled: () => Promise<void> } {
  const call = Reflect.get(target, method) as (...args: unknown[]) => Promise<unknown>;
  const pending = new Set<Promise<unknown>>();
  const counted = {
    count: 0,
    settled: async (): Promise<void> => {
      await turns(1);
      while (pending.size > 0) {
        await Promise.allSettled(pending);
        await turns(1);
      }
    },
  };
  Reflect.set(target, method, (...args: unknown[]) => {
    counted.count++;
    const answer = Reflect.apply(call, target, args);
    pending.add(answer);
    void answer.finally(() => pending.delete(answer)).catch(() => undefined);
    return answer;
  });
  return counted;
}

/** Leases that were acquired over a second, so that a different one is due all the time. Returns the requests of two seconds. */
async function requestsToRenew(
  store: LeaseStore,
  requests: { count: number; settled: () => Promise<void> },
): Promise<number> {
  const clock = new FixedClock();
  const manager = new LeaseManager({ store, clock, ttl: TTL, renew: { every: EVERY } });
  const steps = EVERY / STEP;
  const leases: Lease[] = [];
  const pass = async (): Promise<void> => {
    clock.advance(STEP);
    await requests.settled();
  };
  for (let step = 0; step < steps; step++) {
    const keys = Array.from({ length: LEASES / steps }, (_, i) => `key ${step} ${i}`);
    leases.push(...(await Promise.all(keys.map((key) => manager.acquire(key, { timeout: 60_000 })))));
    await pass();
  }
  // The first beats bring together those that are due at about the same time.
  for (let step = 0; step < steps; step++) await pass();
  const before = requests.count;
  for (let step = 0; step < 2 * steps; step++) await pass();
  const asked = requests.count - before;
  expect(leases.filter(({ held }) => held)).toHaveLength(LEASES);
  expect(leases.every(({ expiresAt }) => expiresAt >= clock.now() + TTL - EVERY)).toBe(true);
  await manager.close();
  return asked;
}

describe('renewing 2000 leases of many owners each second takes at most 100 requests a second', () => {
  describe.skipIf(redisLibraries.length === 0)('to Redis', () => {
    const scene = new RedisScene('ioredis');

    it('whenever they were acquired', async () => {
      const requests = counting(scene.client, 'evalsha');
      const asked = await requestsToRenew(scene.store, requests);
      expect(asked).toBeGreaterThanOrEqual((2 * LEASES) / 50);
      expect(asked).toBeLessThanOrEqual(200);
    });
  });

  describe.skipIf(mysqlConnections.length === 0)('to MySQL', () => {
    const scene = new MysqlScene();

    it('whenever they were acquired', async () => {
      const client = (await scene.connect('mysql2/promise connection')) as Connection;
      const requests = counting(client, 'query');
      const asked = await requestsToRenew(scene.storeOn(client, { table: scene.newTable() }), requests);
      expect(asked).toBeGreaterThanOrEqual((2 * LEASES) / 50);
      expect(asked).toBeLessThanOrEqual(200);
    });
  });

  describe.skipIf(postgresLibraries.length === 0)('to PostgreSQL', () => {
    const scene = new PostgresScene();

    it('whenever they were acquired', async () => {
      const client = (await scene.connect('pg-client')) as pg.Client;
      const requests = counting(client, 'query');
      const asked = await requestsToRenew(scene.storeOn(client, { table: scene.newTable() }), requests);
      expect(asked).toBeGreaterThanOrEqual((2 * LEASES) / 50);
      expect(asked).toBeLessThanOrEqual(200);
    });
  });
});
