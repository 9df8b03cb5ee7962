import { canList } from '../lease/contract/listing.js';
import { revokeLease } from '../lease/revoke.js';
import type { Sentence } from './framework.js';
import {
  ask,
  expectFree,
  expectWriterRefused,
  join,
  leave,
  LONG,
  sharingSentence,
  storeOf,
  write,
} from './shared.js';

/** The rules for putting off readers, in stores that can grant keys in shared mode. */
export const puttingOff: readonly Sentence[] = [
  sharingSentence('new readers are refused, and those inside may ask again and renew', async (on) => {
    const grant = await join(on, 'r1');
    await join(on, 'r2');
    on.expect(await storeOf(on).putOffReaders('key', LONG)).toBe(true);
    for (const reader of ['r3', 'r', 'r1:r2']) on.expect(await ask(on, reader)).toBe(undefined);
    on.expect(await leave(on, 'r3')).toBe(false);
    for (const reader of ['r1', 'r2']) on.expect(await join(on, reader)).toEqual(grant);
    on.expect(await on.store.renew('key', grant.group, LONG)).toBe(true);
    on.expect(await ask(on, 'r3')).toBe(undefined);
    on.expect(await leave(on, 'r1')).toBe(true);
    on.expect(await ask(on, 'r1')).toBe(undefined);
    await expectWriterRefused(on);
    on.expect(await leave(on, 'r2')).toBe(true);
    on.expect(await write(on)).toBe((await on.store.inspect('key'))?.token);
  }),
  sharingSentence('it ends after its time', async (on) => {
    const grant = await join(on, 'r1');
    const asked = on.now();
    on.expect(await storeOf(on).putOffReaders('key', on.ttl)).toBe(true);
    const early = await ask(on, 'r2');
    on.requireWithin(on.ttl, asked);
    on.expect(early).toBe(undefined);
    await on.expire();
    on.expect(await join(on, 'r2')).toEqual(grant);
  }),
  sharingSentence('a later call extends it, and never shortens it', async (on) => {
    await join(on, 'r1');
    for (const times of [
      [100, 1],
      [1, 100],
    ]) {
      for (const time of times) on.expect(await storeOf(on).putOffReaders('key', time * on.ttl)).toBe(true);
      await on.expire();
      on.expect(await ask(on, 'r2')).toBe(undefined);
      on.expect(await leave(on, 'r1')).toBe(true);
      await write(on);
      on.expect(await on.store.release('key', 'writer')).toBe(true);
      await join(on, 'r1');
    }
  }),
  sharingSentence('a key that is free then refuses readers, until an owner was granted it', async (on) => {
    for (const readers of [['r1'], ['r2', 'r3']]) {
      for (const reader of readers) await join(on, reader);
      on.expect(await storeOf(on).putOffReaders('key', LONG)).toBe(true);
      for (const reader of readers) on.expect(await leave(on, reader)).toBe(true);
      for (const reader of ['r4', ...readers]) {
        on.expect(await ask(on, reader)).toBe(undefined);
        on.expect(await leave(on, reader)).toBe(false);
      }
      await expectFree(on);
      if (canList(on.store)) on.expect(await on.store.list()).toEqual([]);
      on.expect(await revokeLease(on.store, 'key')).toBe(false);
      on.expect(await storeOf(on).putOffReaders('key', LONG)).toBe(false);
      on.expect(await ask(on, 'r4')).toBe(undefined);
      await write(on);
      on.expect(await ask(on, 'r4')).toBe(undefined);
      on.expect(await on.store.release('key', 'writer')).toBe(true);
      const grant = await join(on, 'r4');
      on.expect(await join(on, 'r5')).toEqual(grant);
      for (const reader of ['r4', 'r5']) on.expect(await leave(on, reader)).toBe(true);
    }
    await join(on, 'r1');
  }),
  sharingSentence('a key that is free admits readers again after that time', async (on) => {
    await join(on, 'r1');
    const asked = on.now();
    on.expect(await storeOf(on).putOffReaders('key', on.ttl)).toBe(true);
    const left = await leave(on, 'r1');
    const early = await ask(on, 'r2');
    on.requireWithin(on.ttl, asked);
    on.expect([left, early]).toEqual([true, undefined]);
    await on.expire();
    const grant = await join(on, 'r2');
    on.expect(await join(on, 'r3')).toEqual(grant);
  }),
  sharingSentence(
    'a group that expires or is revoked while readers are put off leaves the key free',
    async (on) => {
      await join(on, 'r1', on.ttl);
      await storeOf(on).putOffReaders('key', 100 * on.ttl);
      await on.expire();
      await expectFree(on);
      await write(on);
      on.expect(await on.store.release('key', 'writer')).toBe(true);
      await join(on, 'r2');
      on.expect(await storeOf(on).putOffReaders('key', LONG)).toBe(true);
      on.expect(await revokeLease(on.store, 'key')).toBe(true);
      await expectFree(on);
      await write(on);
      on.expect(await on.store.release('key', 'writer')).toBe(true);
      const grant = await join(on, 'r3');
      on.expect(await join(on, 'r4')).toEqual(grant);
    },
  ),
  sharingSentence('of a key that is free or has another holder it changes nothing', async (on) => {
    on.expect(await storeOf(on).putOffReaders('key', LONG)).toBe(false);
    await expectFree(on);
    const grant = await join(on, 'r1');
    on.expect(await join(on, 'r2')).toEqual(grant);
    for (const reader of ['r1', 'r2']) on.expect(await leave(on, reader)).toBe(true);
    const token = await write(on);
    on.expect(await storeOf(on).putOffReaders('key', LONG)).toBe(false);
    const state = await on.store.inspect('key');
    on.expect([state?.owner, state?.token]).toEqual(['writer', token]);
    on.expect(state !== undefined && 'info' in state).toBe(false);
    on.expect(await on.store.release('key', 'writer')).toBe(true);
    await join(on, 'r3');
    await join(on, 'r4');
  }),
  sharingSentence('it does not extend the lease of the group, or change its token', async (on) => {
    const grant = await join(on, 'r1', on.ttl);
    await storeOf(on).putOffReaders('key', LONG);
    await on.expire();
    await expectFree(on);
    on.expect((await write(on)) > grant.token).toBe(true);
  }),
];
