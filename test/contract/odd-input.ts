import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createContext, runInContext } from 'node:vm';
import { describe, expect, it, onTestFinished } from 'vitest';
import { StripedLock, type AcquireOptions, type LockKey, type LockMessage } from 'stripelock';
import type { Suite } from '../support/engine.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';

const WRONG_TYPE = { name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' };
const WRONG_VALUE = { name: 'RangeError', code: 'ERR_OUT_OF_RANGE' };

function throwing(): never {
  throw new Error('a trap of the value ran');
}

const EVERY_TRAP = Object.fromEntries(
  Object.getOwnPropertyNames(Reflect).map((trap) => [trap, throwing]),
) as ProxyHandler<object>;

function revoked(target: object): object {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
}

/** Objects and functions that do anything rather than tell what they are. */
function hostileObjects(): unknown[] {
  const named = (name: unknown): new () => object =>
    Object.defineProperty(
      class {
        readonly odd = true;
      },
      'name',
      { value: name },
    );
  const Odd = Object.defineProperty(named('Odd'), 'name', { get: throwing });
  const Symbolic = named(Symbol('no string'));
  const Long = named('x'.repeat(1e6));
  const nameless = (): void => undefined;
  Object.defineProperty(nameless, 'name', { get: throwing });
  return [
    Object.defineProperty({}, 'constructor', { get: throwing }),
    { constructor: new Proxy(Odd, EVERY_TRAP) },
    { toString: throwing, valueOf: throwing, [Symbol.toPrimitive]: throwing, toJSON: throwing },
    Object.create(null),
    Object.create(new Proxy({}, EVERY_TRAP)),
    Object.setPrototypeOf({}, revoked({})),
    new Odd(),
    new Symbolic(),
    new Long(),
    new Proxy({}, EVERY_TRAP),
    new Proxy(nameless, EVERY_TRAP),
    nameless,
    revoked({}),
    revoked([]),
    revoked(nameless),
    new Proxy(new Uint8Array(2), {}),
    Object.create(Uint8Array.prototype),
  ];
}

/** Besides them, what takes long to show, or cannot be turned into a string. */
const hostileValues = (): unknown[] => [
  ...hostileObjects(),
  Symbol('s'.repeat(1e6)),
  10n ** 100_000n,
  -(10n ** 100_000n),
];

type Untyped = Record<string, (...args: unknown[]) => unknown>;
const untyped = (lock: StripedLock): Untyped => lock as unknown as Untyped;
const SYNC = ['acquireSync', 'tryAcquire', 'withLockSync'] as const;
const ASYNC = ['acquire', 'withLock'] as const;

/** What a call fails with; those that give a promise must not throw instead. */
async function failureOf(
  lock: StripedLock,
  method: (typeof SYNC)[number] | (typeof ASYNC)[number],
  keys: unknown,
  options?: unknown,
): Promise<unknown> {
  const args = method.startsWith('withLock') ? [keys, options, () => 'ran'] : [keys, options];
  const call = (): unknown => untyped(lock)[method]!(...args);
  return method === 'acquire' || method === 'withLock'
    ? rejectionOf(call() as Promise<unknown>)
    : thrownBy(call);
}

/** A refusal whose message is one that can be read. */
function expectRefused(error: unknown, expected: typeof WRONG_TYPE): void {
  expect(error).toMatchObject(expected);
  expect((error as Error).message.length).toBeLessThan(300);
}

export const oddInputSuite: Suite = (makeLock, engine) => {
  describe('odd input', () => {
    for (const method of [...SYNC, ...ASYNC]) {
      it(`to ${method}(): a value that throws when it is looked at is refused like any other`, async () => {
        const lock = makeLock();
        for (const value of hostileValues()) {
          expectRefused(await failureOf(lock, method, value), WRONG_TYPE);
          expectRefused(await failureOf(lock, method, ['good', value]), WRONG_TYPE);
          expectRefused(await failureOf(lock, method, 'good', { mode: value }), WRONG_TYPE);
          if (method !== 'tryAcquire') {
            expectRefused(await failureOf(lock, method, 'good', { timeout: value }), WRONG_TYPE);
          }
          if (method === 'acquire' || method === 'withLock') {
            expectRefused(await failureOf(lock, method, 'good', { signal: value }), WRONG_TYPE);
          }
        }
        for (const options of [revoked({}), revoked([]), 's'.repeat(1e6), 10n ** 100_000n]) {
          expectRefused(await failureOf(lock, method, 'good', options), WRONG_TYPE);
        }
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0, contended: 0 });
      });

      it(`to ${method}(): a list of more keys than there can be stripes is refused at once, unread`, async () => {
        const lock = makeLock();
        for (const length of [1_048_577, 5e7, 2 ** 32 - 1]) {
          expectRefused(await failureOf(lock, method, new Array(length)), WRONG_VALUE);
        }
        const unread = new Proxy([], {
          get: (_target, key) => (key === 'length' ? 5e7 : throwing()),
        });
        expectRefused(await failureOf(lock, method, unread), WRONG_VALUE);
        for (const length of [-1, 0.5, NaN, Infinity, '2', 2n, undefined, {}, Symbol('length')]) {
          const lying = new Proxy(['a', 'b'], {
            get: (target, key, self) =>
              key === 'length' ? length : (Reflect.get(target, key, self) as unknown),
          });
          expectRefused(await failureOf(lock, method, lying), WRONG_VALUE);
        }
        // And what is no key is told of when it is come to.
        const reads: PropertyKey[] = [];
        const holes = new Proxy(new Array(1_048_576), {
          get: (target, key, self) => {
            if (key !== 'length') reads.push(key);
            return Reflect.get(target, key, self) as unknown;
          },
        });
        expectRefused(await failureOf(lock, method, holes), WRONG_TYPE);
        expect(reads).toEqual(['0']);
        expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
      });
    }

    it('may be as many keys as there can be stripes', () => {
      const lock = makeLock({ stripes: 3 });
      const guard = lock.acquireSync(new Array<string>(1_048_576).fill('key'));
      expect(guard.stripes).toEqual([lock.stripeOf('key')]);
      expect(guard.keys).toHaveLength(1_048_576);
      guard.release();
    });

    it('to the constructor, from() and stripeOf() is refused like any other', () => {
      const lock = makeLock();
      const make = makeLock as (options: unknown) => StripedLock;
      for (const value of hostileValues()) {
        for (const name of ['stripes', 'timeout', 'name', 'engine', 'trace']) {
          expectRefused(
            thrownBy(() => make({ [name]: value })),
            WRONG_TYPE,
          );
        }
        expectRefused(
          thrownBy(() => StripedLock.from(value as typeof lock.handle)),
          WRONG_TYPE,
        );
        expectRefused(
          thrownBy(() => untyped(lock)['stripeOf']!(value)),
          WRONG_TYPE,
        );
        for (const field of Object.keys(lock.handle)) {
          expectRefused(
            thrownBy(() => StripedLock.from({ ...lock.handle, [field]: value })),
            WRONG_TYPE,
          );
        }
      }
      expectRefused(
        thrownBy(() => new StripedLock(revoked({}))),
        WRONG_TYPE,
      );
    });

    it('to withLock() and withLockSync() in place of a function is refused like any other', async () => {
      const lock = makeLock();
      for (const value of hostileValues().filter((value) => typeof value !== 'function')) {
        expectRefused(await rejectionOf(untyped(lock)['withLock']!('key', {}, value) as never), WRONG_TYPE);
        expectRefused(
          thrownBy(() => untyped(lock)['withLockSync']!('key', {}, value)),
          WRONG_TYPE,
        );
      }
      const odd = Object.defineProperty(() => Promise.resolve(), 'name', { get: throwing });
      expectRefused(
        thrownBy(() => lock.withLockSync('key', odd)),
        WRONG_TYPE,
      );
      expect(lock.stats().held).toBe(0);
    });
  });

  describe('a list of keys that lies', () => {
    /** Tells the keys once, and then others. */
    const readings = (): { list: string[]; reads: number[] } => {
      const first = ['a', 'b', 'c'];
      const reads = first.map(() => 0);
      const list = new Array<string>(first.length);
      for (const [i, key] of first.entries()) {
        Object.defineProperty(list, i, { get: () => (reads[i]!++ === 0 ? key : `other ${key}`) });
      }
      return { list, reads };
    };
    const stripesOf = (lock: StripedLock, keys: LockKey[]): number[] =>
      [...new Set(keys.map((key) => lock.stripeOf(key)))].sort((x, y) => x - y);
    const expectTaken = (lock: StripedLock, list: readonly LockKey[], keys: LockKey[]): void => {
      const guard = lock.acquireSync(list);
      expect(guard.keys).toEqual(keys);
      expect(guard.stripes).toEqual(stripesOf(lock, keys));
      guard.release();
    };

    it('is read once, element by element, whatever has been asked for before', () => {
      const before: LockKey[][] = [
        [],
        ['x', 'y', 'z'],
        ['a', 'y', 'z'],
        ['a', 'b', 'z'],
        ['a', 'b', 'c'],
        ['a', 'b', 'other c'],
        ['other a', 'other b', 'other c'],
        ['a', 'b'],
      ];
      for (const one of before) {
        for (const two of before) {
          const lock = makeLock({ stripes: 1_000_003 });
          expectTaken(lock, one, one);
          expectTaken(lock, two, two);
          const { list, reads } = readings();
          expectTaken(lock, list, ['a', 'b', 'c']);
          expect(reads).toEqual([1, 1, 1]);
          expectTaken(lock, ['a', 'b', 'c'], ['a', 'b', 'c']);
          expectTaken(lock, ['other a', 'other b', 'other c'], ['other a', 'other b', 'other c']);
        }
      }
    });

    it('is asked neither for a slice nor for its species, and leaves the stripes of an honest one alone', () => {
      const lock = makeLock({ stripes: 1_000_003 });
      class Lying extends Array<string> {
        static override get [Symbol.species](): ArrayConstructor {
          return throwing();
        }
      }
      for (const method of ['slice', 'map', 'every', 'forEach', 'concat', Symbol.iterator]) {
        Object.defineProperty(Lying.prototype, method, { value: () => ['c', 'd'] });
      }
      for (const count of [2, 30, 200]) {
        const keys = Array.from({ length: count }, (_, i) => `key ${i}`);
        const list = new Lying();
        for (const key of keys) list.push(key);
        expectTaken(lock, list, keys);
        expectTaken(lock, keys, keys);
      }
    });

    it('may be a Proxy, or grow and shrink while it is read', () => {
      const lock = makeLock({ stripes: 1_000_003 });
      expectTaken(lock, new Proxy(['a', 'b'], {}), ['a', 'b']);
      const growing = ['a', 'b'];
      Object.defineProperty(growing, 0, { get: () => (growing.push('more'), 'a') });
      expectTaken(lock, growing, ['a', 'b']);
      const shrinking = ['a', 'b', 'c'];
      Object.defineProperty(shrinking, 0, { get: () => ((shrinking.length = 1), 'a') });
      expectRefused(
        thrownBy(() => lock.acquireSync(shrinking)),
        WRONG_TYPE,
      );
      expect(lock.stats().held).toBe(0);
    });

    it('may acquire others while it is read', () => {
      const lock = makeLock({ stripes: 1_000_003 });
      const list = ['a', 'b'];
      Object.defineProperty(list, 1, {
        get: () => {
          lock.acquireSync(['a', 'other']).release();
          lock.acquireSync(['x', 'y']).release();
          return 'b';
        },
      });
      for (let i = 0; i < 3; i++) {
        expectTaken(lock, list, ['a', 'b']);
        expectTaken(lock, ['a', 'other'], ['a', 'other']);
        expectTaken(lock, ['a', 'b'], ['a', 'b']);
      }
    });

    it('passes an error of its own on, and nothing is taken', async () => {
      const lock = makeLock();
      const list = ['a', 'b'];
      Object.defineProperty(list, 1, { get: throwing });
      for (const method of [...SYNC, ...ASYNC]) {
        expect(await failureOf(lock, method, list)).toMatchObject({ message: 'a trap of the value ran' });
      }
      expect(lock.stats().held).toBe(0);
    });
  });

  describe('what another realm made', () => {
    const realm = createContext({ Buffer, AbortController, EventTarget });
    const made = (code: string): unknown => runInContext(code, realm);

    it('may be bytes: the same key as those of this one', async () => {
      const lock = makeLock({ stripes: 1_000_003, trace: true });
      const theirs = made('Uint8Array.of(1, 2, 255)') as Uint8Array;
      expect(theirs instanceof Uint8Array).toBe(false);
      expect(lock.stripeOf(theirs)).toBe(lock.stripeOf(Uint8Array.of(1, 2, 255)));
      for (const keys of [theirs, [theirs, 'b'], made('[Uint8Array.of(1, 2, 255), "b"]') as LockKey[]]) {
        const guard = await lock.acquire(keys);
        expect(lock.tryAcquire(Buffer.of(1, 2, 255))).toBeUndefined();
        const held = lock.inspect().find(({ stripe }) => stripe === lock.stripeOf(theirs))!;
        expect(held.holders[0]!.keys![0]).toEqual(Uint8Array.of(1, 2, 255));
        await expect(lock.acquire(theirs, { timeout: 0 })).rejects.toThrow('<0102ff>');
        guard.release();
      }
    });

    it('may be a list, options, a signal and a function', async () => {
      const lock = makeLock();
      const list = made('["a", "b"]') as string[];
      const guard = lock.acquireSync(
        list,
        made('({ timeout: 5, mode: "shared" })') as AcquireOptions<'shared'>,
      );
      expect(guard).toMatchObject({ keys: ['a', 'b'], mode: 'shared' });
      const controller = made('new AbortController()') as AbortController;
      const waiting = lock.acquire('a', { signal: controller.signal });
      controller.abort(made('"reason"'));
      expect(await rejectionOf(waiting)).toBe('reason');
      guard.release();
      expect(await lock.withLock(list, made('() => 2') as () => number)).toBe(2);
      const copied = made('(handle) => ({ ...handle })') as (handle: object) => typeof lock.handle;
      expect(StripedLock.from(copied(lock.handle)).engine).toBe(engine.name);
    });

    it('may be a signal of another implementation', async () => {
      const lock = makeLock();
      class OtherSignal {
        aborted = false;
        reason: unknown = undefined;
        readonly #target = new EventTarget();
        addEventListener(...args: Parameters<EventTarget['addEventListener']>): void {
          this.#target.addEventListener(...args);
        }
        removeEventListener(...args: Parameters<EventTarget['removeEventListener']>): void {
          this.#target.removeEventListener(...args);
        }
        abort(reason: unknown): void {
          this.aborted = true;
          this.reason = reason;
          this.#target.dispatchEvent(new Event('abort'));
        }
      }
      const signal = new OtherSignal();
      const guard = lock.acquireSync('key');
      const waiting = lock.acquire('key', { signal: signal as unknown as AbortSignal });
      signal.abort('reason');
      expect(await rejectionOf(waiting)).toBe('reason');
      expect(lock.stats()).toMatchObject({ waiting: 0, aborts: 1 });
      guard.release();
    });
  });

  describe('bytes that are not what they seem', () => {
    it('count by what is in them, and not by what they say', () => {
      const lock = makeLock({ stripes: 1_000_003 });
      class Odd extends Uint8Array {
        override get length(): number {
          return 1;
        }
        override [Symbol.iterator](): ReturnType<Uint8Array['values']> {
          return throwing();
        }
        override subarray(): Uint8Array<ArrayBuffer> {
          return throwing();
        }
      }
      const bytes = Uint8Array.of(1, 2, 3);
      const odd = new Odd(bytes);
      const own = Object.defineProperty(Uint8Array.from(bytes), 'length', { value: 1e9 });
      const bare = Object.setPrototypeOf(Uint8Array.from(bytes), new Proxy({}, EVERY_TRAP)) as Uint8Array;
      for (const key of [odd, own, bare]) {
        expect(lock.stripeOf(key)).toBe(lock.stripeOf(bytes));
        const guard = lock.acquireSync(key);
        const error = thrownBy(() => lock.acquireSync(key, { timeout: 0 }));
        expect(error).toMatchObject({ message: expect.stringContaining('<010203>') as string });
        guard.release();
      }
    });

    it('are empty where their memory is gone', () => {
      const lock = makeLock({ stripes: 1_000_003 });
      const gone = Uint8Array.of(1, 2, 3);
      structuredClone(gone.buffer, { transfer: [gone.buffer] });
      expect(lock.stripeOf(gone)).toBe(lock.stripeOf(''));
      const guard = lock.acquireSync([gone, 'b']);
      expect(thrownBy(() => lock.acquireSync(gone, { timeout: 0 }))).toMatchObject({
        code: 'ERR_LOCK_TIMEOUT',
      });
      guard.release();
    });

    it('are shown as they were when an acquisition began to wait, and its timeout is one like any other', async () => {
      const lock = makeLock();
      const bytes = (): Uint8Array<ArrayBuffer> => Uint8Array.of(1, 2, 255);
      const guard = lock.acquireSync([bytes(), 'other']);
      const published: LockMessage[] = [];
      const subscriber = (message: unknown): void => void published.push(message as LockMessage);
      for (const channel of ['wait', 'timeout']) subscribe(`stripelock:${channel}`, subscriber);
      onTestFinished(() => {
        for (const channel of ['wait', 'timeout']) unsubscribe(`stripelock:${channel}`, subscriber);
      });
      const gone = bytes();
      const written = bytes();
      const alsoGone = bytes();
      const waiting = [
        lock.acquire(gone, { timeout: 20 }),
        lock.acquire(written, { timeout: 20 }),
        lock.acquire([alsoGone, 'other'], { timeout: 30 }),
        lock.acquire('other', { timeout: 40 }),
      ];
      structuredClone(gone.buffer, { transfer: [gone.buffer] });
      structuredClone(alsoGone.buffer, { transfer: [alsoGone.buffer] });
      written.fill(9);
      const errors = await Promise.all(waiting.map(rejectionOf));
      const expected = [[bytes()], [bytes()], [bytes(), 'other'], ['other']];
      for (const [i, keys] of expected.entries()) {
        expect(errors[i]).toMatchObject({ name: 'LockTimeoutError', keys });
        expect((errors[i] as Error).message).toContain(i < 3 ? '<0102ff>' : '"other"');
      }
      // Each tells of its wait, and then of its timeout.
      expect(published.map(({ keys }) => keys)).toEqual(expected.flatMap((keys) => [keys, keys]));
      expect(lock.stats()).toMatchObject({ held: 2, waiting: 0, timeouts: 4 });
      guard.release();
    });

    it('stay those of the guard, as they were passed', async () => {
      const lock = makeLock();
      const bytes = Uint8Array.of(1, 2, 255);
      const first = lock.acquireSync(bytes);
      const waiting = lock.acquire(bytes);
      first.release();
      const guard = await waiting;
      expect(guard.keys[0]).toBe(bytes);
      structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
      expect(lock.stats().held).toBe(1);
      guard.release();
      expect(lock.stats().held).toBe(0);
    });
  });

  describe('a clock that a test has replaced', () => {
    it('does not matter to a new lock, whose tokens begin at the time of the real one', () => {
      const real = Date.now;
      onTestFinished(() => {
        Date.now = real;
      });
      const before = BigInt(real()) * 1_000_000n;
      for (const now of [0, 1.5, NaN, -1, Infinity]) {
        Date.now = () => now;
        const guard = makeLock({ stripes: 1 }).acquireSync('key');
        expect(guard.token).toBeGreaterThan(before);
        guard.release();
      }
    });
  });
};
