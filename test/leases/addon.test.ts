import { describe, expect, it } from 'vitest';
import { MemoryLeaseStore } from 'stripelock';
import { loadAddon } from '../../unbundled/engine/native/addon.js';
import {
  EXCHANGE_AT as AT,
  EXCHANGE_BYTES,
  EXCHANGE_GRANT as GRANT,
  EXCHANGE_TABLE as TABLE,
  EXCHANGE_TTL as TTL,
} from '../../unbundled/engine/native/protocol.js';

const refusal = expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }) as Error;

describe('the addon refuses what lib/ would never pass, instead of crashing:', () => {
  // This starts the addon in this thread. After the first call of leaseExchange only this test can use leases.
  new MemoryLeaseStore();
  const addon = loadAddon();
  const numbers = new Float64Array(new SharedArrayBuffer(EXCHANGE_BYTES));
  const raw = addon as unknown as Record<string, (...args: unknown[]) => unknown>;

  it('memory for the exchange that may be freed, or has another size', () => {
    for (const wrong of [
      undefined,
      'numbers',
      new Float64Array(EXCHANGE_BYTES / 8),
      new Float64Array(new SharedArrayBuffer(EXCHANGE_BYTES - 8)),
      new Float64Array(new SharedArrayBuffer(EXCHANGE_BYTES + 8), 8),
      new Int32Array(new SharedArrayBuffer(EXCHANGE_BYTES)),
    ]) {
      expect(() => raw['leaseExchange']!(wrong)).toThrow(refusal);
    }
  });

  it('a table that is not open, a key or an owner that is not a string, a time out of range', () => {
    addon.leaseExchange(numbers);
    const table = addon.leaseOpen(addon.leaseIssue(), false);
    const right = { [TABLE]: table, [AT]: NaN, [TTL]: 1000, [GRANT]: 0 };
    const withNumbers = (name: string, args: unknown[], changed: Record<number, number> = {}): unknown => {
      for (const [place, number] of Object.entries({ ...right, ...changed })) numbers[Number(place)] = number;
      return raw[name]!(...args);
    };
    const calls = ['leaseAcquire', 'leaseTakeTurn', 'leaseRenew', 'leaseRelease', 'leaseInspect'];
    for (const call of calls) {
      withNumbers(call, ['key']);
      withNumbers(call, ['key', 'owner']);
      for (const args of [[], [5], [undefined, 'owner'], ['key', 5], ['key', undefined]]) {
        expect(() => withNumbers(call, args)).toThrow(refusal);
      }
    }
    for (const call of [...calls, 'leaseReleaseHinted']) {
      for (const number of [-1, table + 1, 2 ** 40, NaN, Infinity]) {
        expect(() => withNumbers(call, ['key'], { [TABLE]: number })).toThrow(refusal);
      }
      for (const time of [Infinity, -Infinity, 2 ** 43]) {
        expect(() => withNumbers(call, ['key'], { [AT]: time })).toThrow(refusal);
      }
    }
    for (const call of ['leaseAcquire', 'leaseTakeTurn', 'leaseRenew']) {
      for (const ttl of [-1, NaN, Infinity, 2 ** 43]) {
        expect(() => withNumbers(call, ['key'], { [TTL]: ttl })).toThrow(refusal);
      }
    }
    for (const call of ['leaseRenew', 'leaseRelease', 'leaseReleaseHinted']) {
      for (const grant of [-1, NaN, Infinity, 2 ** 53]) {
        expect(() => withNumbers(call, ['key'], { [GRANT]: grant })).toThrow(refusal);
      }
    }
    for (const args of [
      [],
      [5, 'owner', table, NaN, 5, 5],
      ['key', 5, table, NaN, 5, 5],
      ['key', 'owner', table + 1, NaN, 5, 5],
      ['key', 'owner', table, Infinity, 5, 5],
      ['key', 'owner', table, NaN, -1, 5],
      ['key', 'owner', table, NaN, 6, 5],
      ['key', 'owner', table, NaN, NaN, 5],
      ['key', 'owner', table, NaN, 5, 2 ** 43],
    ]) {
      expect(() => raw['leaseKeep']!(...args)).toThrow(refusal);
    }
    for (const wrong of [-1, table + 1, 'table'])
      expect(() => raw['leaseFirstToken']!(wrong)).toThrow(refusal);
    addon.leaseClose(table);
    expect(() => withNumbers('leaseAcquire', ['key'])).toThrow(refusal);
  });

  it('numbers that name no gate, and tokens out of range', () => {
    const { gateOpen, gateAdmit, gateSize, gateClose } = raw;
    expect(() => gateOpen!('1', 10)).toThrow(refusal);
    expect(() => gateOpen!(addon.gateIssue(), 0)).toThrow(refusal);
    const gate = addon.gateOpen(addon.gateIssue(), 10);
    for (const token of [5, -1n, 2n ** 64n, undefined])
      expect(() => gateAdmit!(gate, 'key', token)).toThrow(refusal);
    for (const wrong of [-1, gate + 1, 0.5, '0']) {
      expect(() => gateAdmit!(wrong, 'key', 1n)).toThrow(refusal);
      expect(() => gateSize!(wrong)).toThrow(refusal);
      expect(() => gateClose!(wrong)).toThrow(refusal);
    }
  });
});
