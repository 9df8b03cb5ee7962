import { describe, expect, it } from 'vitest';
import { FencingGate, LeaseManager, StaleTokenError } from 'stripelock';
import { FixedClock } from 'stripelock/testing';
import { runThread } from '../support/threads.js';
import { thrownBy } from '../support/waiting.js';

describe('FencingGate', () => {
  it('admits rising tokens, equal ones included, and refuses lower ones', () => {
    const gate = new FencingGate();
    gate.admit('key', 5n);
    gate.admit('key', 5n);
    gate.admit('key', 7n);
    gate.admit('other', 1n);
    const error = thrownBy(() => gate.admit('key', 6n));
    expect(error).toBeInstanceOf(StaleTokenError);
    expect(error).toMatchObject({ code: 'ERR_STALE_TOKEN', key: 'key', token: 6n, newest: 7n });
  });

  it('is one gate for all threads', async () => {
    const gate = new FencingGate();
    const admitted = await runThread<boolean>('fencing-gate.mjs', { handle: gate.handle, token: 9n });
    expect(admitted).toBe(true);
    expect(thrownBy(() => gate.admit('key', 8n))).toMatchObject({ newest: 9n });
    expect(await runThread<boolean>('fencing-gate.mjs', { handle: gate.handle, token: 8n })).toBe(false);
    expect(FencingGate.from(gate.handle).size).toBe(1);
  });

  it('remembers no more keys than its capacity, and refuses what it cannot know to be fresh', () => {
    const gate = new FencingGate({ capacity: 10 });
    for (let i = 1n; i <= 100n; i++) gate.admit(`key ${i}`, i);
    expect(gate.size).toBe(10);
    expect(thrownBy(() => gate.admit('key 50', 50n))).toMatchObject({ newest: 90n });
    gate.admit('key 100', 100n);
    gate.admit('new', 101n);
  });

  it('refuses the late write of a holder that was paused beyond its TTL', async () => {
    const clock = new FixedClock();
    const manager = new LeaseManager({ clock, renew: false, ttl: 1000 });
    const gate = new FencingGate();
    const paused = await manager.acquire('job');
    gate.admit('job', paused.token);
    clock.advance(1000);
    const next = await manager.acquire('job');
    gate.admit('job', next.token);
    expect(() => gate.admit('job', paused.token)).toThrow(StaleTokenError);
  });

  it('refuses bad input', () => {
    const gate = new FencingGate();
    const type = expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }) as Error;
    const range = expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' }) as Error;
    expect(() => gate.admit('', 1n)).toThrow(range);
    expect(() => gate.admit(5 as never, 1n)).toThrow(type);
    expect(() => gate.admit('key', 1 as never)).toThrow(type);
    expect(() => gate.admit('key', -1n)).toThrow(range);
    expect(() => gate.admit('key', 2n ** 64n)).toThrow(range);
    expect(() => new FencingGate({ capacity: 0 })).toThrow(range);
    expect(() => new FencingGate({ capacity: '5' as never })).toThrow(type);
    expect(() => FencingGate.from({})).toThrow(type);
    expect(() => FencingGate.from({ ...gate.handle, number: 1e9 } as object)).toThrow('refers to nothing');
    gate.admit('key', 2n ** 64n - 1n);
  });
});
