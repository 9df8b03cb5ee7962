import { onTestFinished } from 'vitest';
import { MemoryLeaseStore, type LeaseStore } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { sqliteDrivers } from '../support/sqlite.js';
import { FaultyStore } from './faulty-store.js';

/** The keys of an operation's first argument: a key, a list of keys, or a list of requests for keys of any owners. */
function keysIn(first: unknown): string {
  const list = (Array.isArray(first) ? first : [first]) as readonly (string | { key: string })[];
  return list.map((one) => (typeof one === 'object' ? one.key : one)).join();
}

/** A store that records what it is asked: the operation, and the key or keys. `All`: in one request, for any owners. */
export function recording(store: LeaseStore): { store: LeaseStore; asked: string[] } {
  const asked: string[] = [];
  const recorded = new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...of: unknown[]): unknown => {
        const operation = String(name).replace(/Each$/, 'All');
        if (name !== 'inOneStep') asked.push(`${operation} ${keysIn(of[0])}`);
        return Reflect.apply(value, target, of);
      };
    },
  });
  return { store: recorded, asked };
}

/** SQLite does several keys in one step. */
export function inOneStep(): LeaseStore {
  const database = sqliteDrivers[0]!.open(':memory:');
  onTestFinished(() => void database.close());
  return sqliteLeaseStore({ database });
}

/** The ways to take several keys. */
export const ways: readonly (readonly [way: string, make: () => LeaseStore])[] = [
  ['in memory', () => new MemoryLeaseStore()],
  ['in one step', inOneStep],
  ['one after the other', () => new FaultyStore()],
];

/** Who holds each of the keys. */
export async function ownersOf(store: LeaseStore, keys: readonly string[]): Promise<(string | undefined)[]> {
  return Promise.all(keys.map(async (key) => (await store.inspect(key))?.owner));
}
