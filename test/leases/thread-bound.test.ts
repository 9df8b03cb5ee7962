import { inspect } from 'node:util';
import { MessageChannel } from 'node:worker_threads';
import { expect, it } from 'vitest';
import { FencingGate, LeaderElection, LeaseManager, MemoryLeaseStore } from 'stripelock';
import { FaultyStore } from './faulty-store.js';
import { onFixedClock } from './fixed-time.js';

it('a lease, its manager, an election, a store and a gate that are posted to another thread throw', async () => {
  const store = new MemoryLeaseStore();
  const manager = new LeaseManager({ store });
  const election = new LeaderElection(manager, 'name', { onElected: () => undefined });
  const lease = await manager.acquire('key');
  const several = await manager.acquire(['a', 'b']);
  const { port1 } = new MessageChannel();
  for (const object of [lease, several, manager, election]) {
    expect(() => port1.postMessage({ object })).toThrow(
      expect.objectContaining({
        name: 'DataCloneError',
        message: expect.stringMatching(/belongs to its thread/) as string,
      }),
    );
  }
  for (const object of [store, new FencingGate()]) {
    expect(() => structuredClone(object)).toThrow(
      expect.objectContaining({
        name: 'DataCloneError',
        message: expect.stringMatching(/pass its handle/) as string,
      }),
    );
  }
  // A handle is meant for other threads, so it can be cloned.

  expect(await MemoryLeaseStore.from(structuredClone(store.handle)).inspect('key')).toMatchObject({
    token: lease.token,
  });
  port1.close();
  await manager.close();
});

it('console.log shows the keys and tokens of a lease, whether it is held, and for how long', async () => {
  const { clock, manager } = onFixedClock();
  const lease = await manager.acquire('key');
  clock.advance(50);
  const token = `${lease.token}n`;
  expect(inspect(lease)).toBe(`Lease { key: 'key', token: ${token}, held: true, remaining: 250 }`);
  await lease.release();
  expect(inspect(lease)).toBe(`Lease { key: 'key', token: ${token}, held: false, remaining: 0 }`);
  const several = await manager.acquire(['b', 'a']);
  expect(inspect(several, { breakLength: Infinity })).toMatch(
    /^Lease \{ keys: \[ 'a', 'b' \], tokens: Map\(2\) \{ 'a' => \d+n, 'b' => \d+n \}, held: true, remaining: 300 \}$/,
  );
  clock.advance(300);
  expect(inspect(several)).toMatch(/held: false,\s+remaining: 0/);
});

it('console.log of a manager, an election, a store and a gate shows no internals', () => {
  const manager = new LeaseManager({ store: new FaultyStore() });
  const election = new LeaderElection(manager, 'name', { onElected: () => undefined });
  expect(inspect(manager)).toMatch(/^LeaseManager \{\s+store: FaultyStore/);
  expect(inspect(election)).toBe("LeaderElection { name: 'name' }");
  expect(inspect(new MemoryLeaseStore())).toMatch(/^MemoryLeaseStore \{\s+handle:/);
  expect(inspect(new FencingGate())).toMatch(/^FencingGate \{\s+handle:/);
  for (const object of [manager, new MemoryLeaseStore(), new FencingGate()]) {
    expect(inspect(object)).not.toMatch(/threadBound/);
  }
});
