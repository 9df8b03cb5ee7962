import { describe, expect, it } from 'vitest';
import type { LeaseEngine, LeaseTable } from '../../lib/engine/contract/lease-table.js';
import { JavaScriptLeases } from '../../unbundled/engine/javascript/leases.js';
import { leaseEngine } from '../../unbundled/engine/select.js';

const engines: readonly LeaseEngine[] = [leaseEngine(), new JavaScriptLeases()];
/** Milliseconds. */
const TTL = 100;
const MOST = 1000;

// Times are the caller's own, so that none depends on the machine.
describe.each(engines)('a lease that a table of the $name engine keeps', (engine) => {
  function keptAtZero(): LeaseTable {
    const table = engine.openTable(true);
    expect(table.tryAcquire('key', 'a', TTL, 0)).toBe(true);
    expect(table.keep('key', 'a', TTL, MOST, 0)).toBe(true);
    return table;
  }

  it('does not expire while its thread lives, whoever looks, and whenever', () => {
    const table = keptAtZero();
    for (const at of [TTL, 3 * TTL, MOST - 1]) {
      expect(table.tryAcquire('key', 'b', TTL, at)).toBe(false);
      expect(table.renew('key', 'b', TTL, at)).toBe(false);
      expect(table.release('key', 'b', at)).toBe(false);
      expect(table.inspect('key', at)).toMatchObject({ owner: 'a', remaining: Math.min(TTL, MOST - at) });
    }
  });

  it('expires at its limit, and not before', () => {
    const table = keptAtZero();
    const wait = table.takeTurn('key', 'b', TTL, MOST - 10);
    expect(wait).toBe(10);
    expect(table.tryAcquire('key', 'b', TTL, MOST)).toBe(true);
    expect(table.release('key', 'a', MOST)).toBe(false);
  });

  it('has those who wait ask again after a ttl at most', () => {
    const table = keptAtZero();
    expect(table.takeTurn('key', 'b', TTL, TTL)).toBe(TTL);
    expect(table.takeTurn('key', 'b', TTL, TTL + 1)).toBe(TTL - 1);
  });

  it('can be released, and renewed beyond its limit, by its owner', () => {
    const table = keptAtZero();
    expect(table.renew('key', 'a', TTL, 7 * TTL)).toBe(true);
    expect(table.renew('key', 'a', TTL, MOST - 1)).toBe(true);
    expect(table.inspect('key', MOST)).toMatchObject({ remaining: TTL - 1 });
    expect(table.inspect('key', MOST + TTL)).toBeUndefined();
    const other = keptAtZero();
    const { granted, grantedHint } = other;
    expect(other.releaseGranted('key', granted, grantedHint, 5 * TTL)).toBe(true);
    expect(other.tryAcquire('key', 'b', TTL, 5 * TTL)).toBe(true);
  });

  it('is swept only when it has ended', () => {
    const table = keptAtZero();
    for (let i = 0; i < 2000; i++) {
      expect(table.tryAcquire(`other ${i}`, 'b', 1, 2 * TTL + i / 100)).toBe(true);
    }
    expect(table.inspect('key', 3 * TTL)).toMatchObject({ owner: 'a' });
    for (let i = 0; i < 5000; i++) table.tryAcquire(`third ${i}`, 'b', 1, MOST + TTL + i);
    expect(table.inspect('key', MOST)).toBeUndefined();
    expect(table.size).toBeLessThan(2000);
  });

  it('is a usual lease once it is let go, and after a new grant to the same owner', () => {
    const table = keptAtZero();
    expect(table.keep('key', 'b', 0, 0, TTL)).toBe(false);
    expect(table.keep('key', 'a', 0, 0, TTL)).toBe(true);
    expect(table.inspect('key', 2 * TTL - 1)).toMatchObject({ owner: 'a' });
    expect(table.inspect('key', 2 * TTL)).toBeUndefined();
    const other = keptAtZero();
    expect(other.tryAcquire('key', 'a', TTL, TTL)).toBe(true);
    expect(other.inspect('key', 2 * TTL)).toBeUndefined();
    expect(other.keep('key', 'a', TTL, MOST, 2 * TTL)).toBe(false);
  });

  it('leaves nothing to the next lease that uses its memory', () => {
    const table = keptAtZero();
    expect(table.release('key', 'a', 1)).toBe(true);
    expect(table.tryAcquire('next', 'b', TTL, 1)).toBe(true);
    expect(table.inspect('next', TTL + 1)).toBeUndefined();
  });
});
