import { beforeEach, describe, expect, it } from 'vitest';
import { EXCLUSIVE_MODE, SHARED_MODE, type Mode } from '../../../unbundled/engine/contract/mode.js';
import {
  DEFAULT_MANAGER,
  type NamedHow,
  type NamedLocks,
} from '../../../unbundled/engine/contract/named-locks.js';
import { nativeNamedEngine } from '../../../unbundled/engine/select.js';
import { Requester } from './named-requester.js';

const engine = nativeNamedEngine()!;
let locks: NamedLocks;

beforeEach(() => {
  locks = engine.open();
});

function request(
  name: string,
  mode: Mode = EXCLUSIVE_MODE,
  how: NamedHow = 'wait',
  requester = new Requester(),
): Requester & { status: string } {
  return Object.assign(requester, { status: locks.request(name, mode, how, requester) });
}

/** Like `name: held | pending`, with modes for the requests. */
function state(): string[] {
  const { held, pending } = locks.query();
  const names = [...new Set([...held, ...pending].map(({ name }) => name))].sort();
  const modes = (list: typeof held, name: string): string =>
    list.flatMap((entry) => (entry.name === name ? [entry.mode.name] : [])).join(' ');
  return names.map((name) => `${name}: ${modes(held, name)} | ${modes(pending, name)}`.trimEnd());
}

/** When all microtasks that are due have run. */
function settled(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

describe('the named locks of one thread', () => {
  it('are granted at once, or in order of arrival, readers together', async () => {
    const first = request('a');
    const reader = request('a', SHARED_MODE);
    const other = request('a', SHARED_MODE);
    const writer = request('a');
    expect([first, reader, other, writer].map(({ status }) => status)).toEqual([
      'held',
      'pending',
      'pending',
      'pending',
    ]);
    expect(state()).toEqual(['a: exclusive | shared shared exclusive']);
    locks.release(first);
    expect(state()).toEqual(['a: shared shared | exclusive']);
    expect(reader.told).toEqual([]);
    await Promise.resolve();
    expect([first, reader, other, writer].map(({ told }) => told)).toEqual([
      [],
      ['granted'],
      ['granted'],
      [],
    ]);
    locks.release(reader);
    locks.release(other);
    await Promise.resolve();
    expect(writer.told).toEqual(['granted']);
    locks.release(writer);
    expect(state()).toEqual([]);
    expect([first, reader, other, writer].map(({ ticket }) => ticket)).toEqual([-1, -1, -1, -1]);
  });

  it('are unavailable if anybody else comes first, and nothing is left behind', () => {
    const reader = request('a', SHARED_MODE);
    const writer = request('a');
    expect(request('a', SHARED_MODE, 'ifAvailable')).toMatchObject({ status: 'unavailable', ticket: -1 });
    expect(state()).toEqual(['a: shared | exclusive']);
    expect(locks.cancel(writer)).toBe(true);
    expect(writer.ticket).toBe(-1);
    const second = request('a', SHARED_MODE, 'ifAvailable');
    expect(second.status).toBe('held');
    locks.release(reader);
    locks.release(second);
  });

  it('are taken from all holders by a thief, who is told nothing', async () => {
    const reader = request('a', SHARED_MODE);
    const other = request('a', SHARED_MODE);
    const queued = request('a');
    const thief = request('a', EXCLUSIVE_MODE, 'steal');
    expect(thief.status).toBe('held');
    expect(state()).toEqual(['a: exclusive | exclusive']);
    expect(reader.told).toEqual([]);
    await Promise.resolve();
    expect([reader, other, queued, thief].map(({ told }) => told)).toEqual([['stolen'], ['stolen'], [], []]);
    locks.release(reader);
    expect(state()).toEqual(['a: exclusive | exclusive']);
    locks.release(thief);
    await Promise.resolve();
    expect(queued.told).toEqual(['granted']);
    locks.release(queued);
  });

  it('tell of a grant, and then of the theft', async () => {
    const first = request('a');
    const second = request('a');
    locks.release(first);
    const thief = request('a', EXCLUSIVE_MODE, 'steal');
    await Promise.resolve();
    expect(second.told).toEqual(['granted', 'stolen']);
    locks.release(second);
    locks.release(thief);
    expect(state()).toEqual([]);
  });

  it('tell nothing of a grant that was taken back, or given up', async () => {
    const first = request('a');
    const second = request('a');
    const third = request('a');
    locks.release(first);
    expect(locks.cancel(second)).toBe(false);
    expect(state()).toEqual(['a: exclusive | exclusive']);
    locks.release(second);
    locks.release(third);
    await settled();
    expect([second.told, third.told]).toEqual([[], []]);
    expect(state()).toEqual([]);
  });

  it('tell nothing of a theft that was released first', async () => {
    const held = request('a');
    const thief = request('a', EXCLUSIVE_MODE, 'steal');
    locks.release(held);
    await settled();
    expect(held.told).toEqual([]);
    locks.release(thief);
  });

  it.each(['cancel', 'release'] as const)(
    'tell nothing to a requester that one told before it makes %s',
    async (call) => {
      const first = request('a');
      const others: Requester[] = [];
      const nosy = new Requester(() => {
        for (const other of others) locks[call](other);
      });
      request('a', SHARED_MODE, 'wait', nosy);
      others.push(request('a', SHARED_MODE), request('a', SHARED_MODE));
      locks.release(first);
      await settled();
      expect(nosy.told).toEqual(['granted']);
      expect(others.map(({ told }) => told)).toEqual([[], []]);
      expect(state()).toEqual([call === 'cancel' ? 'a: shared shared shared |' : 'a: shared |']);
      for (const requester of [nosy, ...others]) locks.release(requester);
      expect(state()).toEqual([]);
    },
  );

  it('tell the others if one fails, and that one again', async () => {
    const first = request('a');
    let fails = true;
    const failing = new Requester(() => {
      if (!fails) return;
      fails = false;
      throw new Error('on purpose');
    });
    request('a', SHARED_MODE, 'wait', failing);
    const other = request('a', SHARED_MODE);
    locks.release(first);
    await settled();
    expect(other.told).toEqual(['granted']);
    expect(failing.told).toEqual(['granted', 'granted']);
    locks.release(failing);
    locks.release(other);
  });

  it('have exact names, unpaired surrogates included', () => {
    const names = ['', '\0', 'a', 'ab', 'ÿ', 'Ā', '慡', '\ud800', '\udc00', '\ufffd', '🔒', 'x'.repeat(127)];
    names.push('x'.repeat(128), 'x'.repeat(129), 'x'.repeat(5000), '\ud800'.repeat(5000));
    const held = names.map((name) => request(name));
    expect(held.map(({ status }) => status)).toEqual(names.map(() => 'held'));
    const found = locks.query().held.map(({ name }) => name);
    expect(found.sort()).toEqual([...names].sort());
    for (const requester of held) locks.release(requester);
    expect(state()).toEqual([]);
  });

  it('take the string of a rope, a slice and a number in text for what they say', () => {
    const held = request('prefix:12');
    expect(request(`prefix:${10 + 2}`, EXCLUSIVE_MODE, 'ifAvailable').status).toBe('unavailable');
    expect(request('a prefix:12 z'.slice(2, 11), EXCLUSIVE_MODE, 'ifAvailable').status).toBe('unavailable');
    locks.release(held);
  });

  it('serve long queues and deep nests without recursion', async () => {
    const many = 100_000;
    const order: number[] = [];
    const first = request('a');
    for (let i = 0; i < many; i++) {
      const requester: Requester = new Requester(() => {
        order.push(i);
        locks.release(requester);
      });
      request('a', EXCLUSIVE_MODE, 'wait', requester);
    }
    const nested = Array.from({ length: 3000 }, (_, i) => request(`nested ${i}`));
    locks.release(first);
    await settled();
    expect(order).toEqual(Array.from({ length: many }, (_, i) => i));
    for (const requester of nested.reverse()) locks.release(requester);
    expect(state()).toEqual([]);
  });

  it('belong to managers, of which all threads know one', () => {
    const other = engine.open();
    const same = engine.open(locks.number);
    const held = request('a');
    const requester = new Requester();
    expect(other.request('a', EXCLUSIVE_MODE, 'ifAvailable', requester)).toBe('held');
    expect(same.request('a', EXCLUSIVE_MODE, 'ifAvailable', new Requester())).toBe('unavailable');
    expect(same.query().held).toHaveLength(1);
    locks.release(held);
    expect(other.query().held).toHaveLength(1);
    other.release(requester);
    expect(engine.open(DEFAULT_MANAGER).number).toBe(DEFAULT_MANAGER);
  });

  it.each([-1, 0.5, NaN, 2 ** 53, 1e300, Infinity])(
    'refuse a manager that was never issued: %d',
    (number) => {
      expect(() => engine.open(number)).toThrow(
        expect.objectContaining({ code: 'ERR_LOCK_ENGINE' }) as Error,
      );
    },
  );

  it('refuse the number that is issued next', () => {
    expect(() => engine.open(engine.open().number + 1)).toThrow(/handle/);
  });
});
