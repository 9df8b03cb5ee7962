import { describe, expect, it, onTestFinished } from 'vitest';
import { ProcessLock } from 'stripelock/process';
import { until } from '../support/waiting.js';
import { lockPath, Peer } from './peer.js';

async function setUp(peers: number): Promise<{ lock: ProcessLock; all: Peer[] }> {
  const lock = new ProcessLock({ path: lockPath(), timeout: 20_000 });
  onTestFinished(() => lock.close());
  return { lock, all: await Promise.all(Array.from({ length: peers }, () => Peer.start(lock.path))) };
}

const pidsOf = (people: readonly { pid: number }[] | undefined): number[] | undefined =>
  people?.map(({ pid }) => pid).sort();

describe('inspect() does not show', () => {
  it('a dead process that shared a key with a living one', async () => {
    const { lock, all } = await setUp(2);
    for (const peer of all) await peer.ask('acquire', 'a', { mode: 'shared' });
    expect(pidsOf(lock.inspect()[0]?.holders)).toEqual(pidsOf(all));
    await all[0]!.kill();
    expect(pidsOf(lock.inspect()[0]?.holders)).toEqual([all[1]!.pid]);
  });

  it('a dead process that held a key alone, also after others have started', async () => {
    const { lock, all } = await setUp(1);
    await all[0]!.ask('acquire', ['a', 'b']);
    expect(lock.inspect()).toHaveLength(2);
    await all[0]!.kill();
    await Peer.start(lock.path);
    expect(lock.inspect()).toEqual([]);
  });

  it('a dead reader of a key that another process holds alone', async () => {
    const { lock, all } = await setUp(1);
    await all[0]!.ask('acquire', 'a', { mode: 'shared' });
    await all[0]!.kill();
    const next = await Peer.start(lock.path);
    await next.ask('acquire', 'a');
    expect(lock.inspect()).toMatchObject([{ key: 'a', mode: 'exclusive', holders: [{ pid: next.pid }] }]);
    expect(lock.inspect()[0]!.holders).toHaveLength(1);
  });

  it('a dead process that waited', async () => {
    const { lock, all } = await setUp(2);
    lock.acquireSync('a');
    for (const peer of all) void peer.ask('acquire', 'a').catch(() => undefined);
    await until(() => lock.inspect()[0]!.waiters.length === 2, 'both wait');
    await all[0]!.kill();
    expect(pidsOf(lock.inspect()[0]!.waiters)).toEqual([all[1]!.pid]);
  });

  it('a part of a long key, which would look like another key', async () => {
    const { lock, all } = await setUp(1);
    const long = ['x'.repeat(500), `${'x'.repeat(500)}y`, new Uint8Array(500).join('')];
    await all[0]!.ask('acquire', [...long, 'x'.repeat(60)]);
    const seen = lock.inspect().map(({ key }) => key);
    expect(seen.filter((key) => key !== undefined)).toEqual(['x'.repeat(60)]);
    expect(seen).toHaveLength(long.length + 1);
    // This process knows the keys that it asks for.
    expect(lock.tryAcquire(long[0])).toBeUndefined();
  });
});

it(
  'inspect() shows a reader after many readers of the same keys have died',
  { timeout: 120_000 },
  async () => {
    const { lock, all } = await setUp(2);
    const keys = Array.from({ length: 1200 }, (_, i) => `key ${i}`);
    const [living, newcomer] = all as [Peer, Peer];
    await living.ask('acquireEach', keys, { mode: 'shared' });
    for (let round = 0; round < 8; round++) {
      const victim = await Peer.start(lock.path);
      await victim.ask('acquireEach', keys, { mode: 'shared' });
      await victim.kill();
    }
    await newcomer.ask('acquireEach', keys.slice(0, 40), { mode: 'shared' });
    const shown = lock.inspect().filter(({ holders }) => holders.some(({ pid }) => pid === newcomer.pid));
    // A reader looks for room in a few places, and the living one may have all of them.
    expect(shown.length).toBeGreaterThan(30);
  },
);
