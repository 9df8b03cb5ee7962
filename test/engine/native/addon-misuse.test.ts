import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StripedLock } from 'stripelock';
import { loadAddon } from '../../../unbundled/engine/native/addon.js';
import { byteLengthFor } from '../../../unbundled/engine/contract/layout.js';
import { SHARED_MODE } from '../../../unbundled/engine/contract/mode.js';
import { GRANTED, NOT_HELD, RELEASED } from '../../../unbundled/engine/native/protocol.js';
import { runProgram } from '../../support/programs.js';
import { seedFor } from '../../support/seed.js';

const refusal = expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }) as Error;

/** TypeScript's library does not have these yet. */
const Growable = SharedArrayBuffer as unknown as new (
  bytes: number,
  options: { maxByteLength: number },
) => SharedArrayBuffer & { grow(bytes: number): void };
const Resizable = ArrayBuffer as unknown as new (
  bytes: number,
  options: { maxByteLength: number },
) => ArrayBuffer;

describe('the addon', () => {
  // This makes the addon start in this thread.
  new StripedLock({ engine: 'native' });
  const addon = loadAddon();
  const stripes = 8;
  const words = new Int32Array(new SharedArrayBuffer(byteLengthFor(stripes)));
  const table = addon.open(words, stripes);
  const counts = (buffer: ArrayBufferLike): Int32Array => new Int32Array(buffer);
  const bytes = 2 * stripes * Int32Array.BYTES_PER_ELEMENT;

  it.each([
    ['files', 65, 1, 0],
    ['holders of a key', 1, 257, 0],
    ['users', 1, 1, 3],
  ])('opens no lock file for more %s than there can be', (_, files, limit, access) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'stripelock-misuse-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const open = (...shape: [number, number, number]): unknown =>
      addon.processOpen(path.join(folder, 'lock'), 'name', 'title', ...shape);
    expect(() => open(files, limit, access)).toThrow(refusal);
    expect(readdirSync(folder)).toEqual([]);
    const opened = open(Math.min(files, 64), Math.min(limit, 256), Math.min(access, 2));
    expect(opened).toHaveLength(6);
    addon.processClose((opened as [number])[0]);
  });

  it('keeps only addresses of shared memory, which cannot be detached', () => {
    const detached = new ArrayBuffer(bytes);
    const former = counts(detached);
    structuredClone(detached, { transfer: [detached] });
    const resizable = new Resizable(bytes, { maxByteLength: 2 * bytes });
    const wasm = Reflect.get(globalThis, 'WebAssembly') as {
      Memory: new (limits: { initial: number }) => { buffer: ArrayBuffer };
    };
    for (const wrong of [
      counts(new ArrayBuffer(bytes)),
      former,
      counts(resizable),
      // It is detached when the memory grows.
      new Int32Array(new wasm.Memory({ initial: 1 }).buffer, 0, stripes),
      counts(new SharedArrayBuffer(bytes - 4)),
      counts(new SharedArrayBuffer(bytes + 4)),
      new Uint32Array(new SharedArrayBuffer(bytes)) as unknown as Int32Array,
    ]) {
      expect(() => addon.openShares(table, wrong)).toThrow(refusal);
    }
    const ordinary = new Int32Array(byteLengthFor(stripes) / Int32Array.BYTES_PER_ELEMENT);
    expect(() => addon.open(ordinary, stripes)).toThrow(refusal);
    // None of them became the table's.
    expect(() => addon.acquireSync(table, 0, 1, 0, SHARED_MODE.code, 0)).toThrow(refusal);
    const right = counts(new SharedArrayBuffer(bytes));
    expect(addon.openShares(table, right)).toBe(right);
  });

  it('refuses calls for leases whose arguments have other types or values', () => {
    const leases = addon.leaseOpen(addon.leaseIssue(), false);
    const wrong = undefined as never;
    for (const call of [
      () => addon.leaseAcquire(leases + 1000, 'key', NaN, 'a', 1, ''),
      () => addon.leaseAcquire(leases, wrong, NaN, 'a', 1, ''),
      () => addon.leaseAcquire(leases, 'key', Infinity, 'a', 1, ''),
      () => addon.leaseAcquire(leases, 'key', NaN, wrong, 1, ''),
      () => addon.leaseAcquire(leases, 'key', NaN, 'a', -1, ''),
      () => addon.leaseAcquire(leases, 'key', NaN, 'a', 1, wrong),
      () => addon.leaseRenew(leases, 'key', NaN, 'a', wrong),
      () => addon.leaseRenew(leases, 'key', NaN, 'a', 1, wrong),
      () => addon.leaseEnd(leases, 'key', NaN, 'a', wrong),
      () => addon.leaseKeep(leases, 'key', NaN, 'a', wrong, 'kept', 1),
      () => addon.leaseKeep(leases, 'key', NaN, 'a', 1n, wrong, 1),
      () => addon.leaseKeep(leases, 'key', NaN, 'a', 1n, 'kept', wrong),
      () => addon.leaseTakeBack(leases, 'key', NaN, 'a', wrong, true),
      () => addon.leaseTakeBack(leases, 'key', NaN, 'a', 1n, wrong),
      () => addon.leaseInspect(leases, 'key', wrong),
    ]) {
      expect(call).toThrow(refusal);
    }
    expect(addon.leaseSize(leases)).toBe(0);
    addon.leaseClose(leases);
  });

  it('keeps working if the memory of shared holds grows', () => {
    const buffer = new Growable(bytes, { maxByteLength: 1 << 20 });
    const other = addon.open(new Int32Array(new SharedArrayBuffer(byteLengthFor(stripes))), stripes);
    const shares = counts(buffer);
    expect(addon.openShares(other, shares)).toBe(shares);
    expect(addon.acquireSync(other, 3, 1, 0, SHARED_MODE.code, 0)).toBe(GRANTED);
    buffer.grow(1 << 20);
    expect(addon.acquireSync(other, 3, 1, 0, SHARED_MODE.code, 0)).toBe(GRANTED);
    expect([...shares.subarray(0, stripes)]).toEqual([0, 0, 0, 2, 0, 0, 0, 0]);
    expect(addon.release(other, 3, SHARED_MODE.code)).toBe(RELEASED);
    expect(addon.release(other, 3, SHARED_MODE.code)).toBe(RELEASED);
    expect(addon.release(other, 3, SHARED_MODE.code)).toBe(NOT_HELD);
    addon.close(other);
  });

  it('does not crash, whatever arguments its functions get', { timeout: 60_000 }, async () => {
    const seed = seedFor('arguments of the addon');
    const { code, signal, stdout, stderr } = await runProgram(
      'addon-misuse.mjs',
      [String(seed)],
      ['--expose-gc'],
      60_000,
    );
    expect({ code, signal, stderr }).toEqual({ code: 0, signal: null, stderr: '' });
    const { returned, refused } = JSON.parse(stdout) as { returned: number; refused: number };
    console.log(`${returned} calls returned, ${refused} were refused`);
    // Otherwise the calls would have been too much alike.
    expect(Math.min(returned, refused)).toBeGreaterThan(1000);
  });
});
