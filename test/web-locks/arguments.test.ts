// "The request() method", and how Web IDL converts its arguments.
import { describe, expect, it } from 'vitest';
import type { LockManager } from 'stripelock/web-locks';
import { rejectionOf } from '../support/waiting.js';
import { engines, stateOf } from './managers.js';

const never = (): never => {
  throw new Error('the callback was called');
};

describe.each(engines)('request() on the $engine engine', ({ makeManager }) => {
  const manager = makeManager();
  /** Without the types, as a program in JavaScript may call it. */
  const request = (...args: unknown[]): Promise<unknown> =>
    Reflect.apply<LockManager, unknown[], Promise<unknown>>(
      Reflect.get(manager, 'request') as () => Promise<unknown>,
      manager,
      args,
    );

  it('rejects with a TypeError, and throws nothing, without a name or a callback', async () => {
    expect(await rejectionOf(request())).toBeInstanceOf(TypeError);
    expect(await rejectionOf(request('a'))).toBeInstanceOf(TypeError);
    for (const callback of [undefined, null, 123, 'abc', [], {}, Promise.resolve()]) {
      expect(await rejectionOf(request('a', callback))).toBeInstanceOf(TypeError);
      expect(await rejectionOf(request('a', {}, callback))).toBeInstanceOf(TypeError);
    }
    expect(await stateOf(manager, 'a')).toEqual({ held: [], pending: [] });
  });

  it('rejects with a TypeError if it is called on something else', async () => {
    const { request: loose } = manager as { request: LockManager['request'] };
    for (const receiver of [undefined, null, {}, Object.create(manager) as object]) {
      const promise = Reflect.apply(loose, receiver, ['a', never]) as Promise<unknown>;
      expect(await rejectionOf(promise)).toBeInstanceOf(TypeError);
    }
  });

  it.each([
    ['', ''],
    ['abc\0def', 'abc\0def'],
    ['\ud800', '\ud800'],
    ['\udc00', '\udc00'],
    ['\udc00\ud800', '\udc00\ud800'],
    ['\uffff', '\uffff'],
    ['x-anything', 'x-anything'],
    [123, '123'],
    [null, 'null'],
    [undefined, 'undefined'],
    [true, 'true'],
    [['a', 'b'], 'a,b'],
    [{ toString: () => 'text', valueOf: () => 'value' }, 'text'],
    ['n'.repeat(100_000), 'n'.repeat(100_000)],
  ])('locks the string that %j is', async (name, text) => {
    const lock = await request(name, (granted: unknown) => granted);
    expect((lock as { name: string }).name).toBe(text);
  });

  it('keeps names apart that are equal in UTF-8, or up to a NUL', async () => {
    for (const [one, other] of [
      ['\ud800', '\ufffd'],
      ['\ud800', '\ud801'],
      ['a\0b', 'a\0c'],
      ['\u00e9', 'e\u0301'],
    ] as const) {
      const available = await manager.request(one, () =>
        manager.request(other, { ifAvailable: true }, (lock) => lock !== null),
      );
      expect(available, JSON.stringify([one, other])).toBe(true);
      const again = await manager.request(one, () =>
        manager.request(one, { ifAvailable: true }, (lock) => lock !== null),
      );
      expect(again, JSON.stringify(one)).toBe(false);
    }
  });

  it('rejects with a TypeError for a name that is not a string', async () => {
    expect(await rejectionOf(request(Symbol('a'), never))).toBeInstanceOf(TypeError);
    const error = new Error('no text');
    const refusing = {
      toString() {
        throw error;
      },
    };
    expect(await rejectionOf(request(refusing, never))).toBe(error);
  });

  it.each(['-', '-foo', '-\ud800'])('rejects with a NotSupportedError for the name %j', async (name) => {
    expect(await rejectionOf(request(name, never))).toMatchObject({ name: 'NotSupportedError' });
    expect(await rejectionOf(request(name, { ifAvailable: true }, never))).toBeInstanceOf(DOMException);
  });

  it.each([
    [{ steal: true, ifAvailable: true }],
    [{ steal: true, mode: 'shared' }],
    [{ signal: new AbortController().signal, steal: true }],
    [{ signal: new AbortController().signal, ifAvailable: true }],
    [{ signal: AbortSignal.abort(), ifAvailable: true }],
    [{ timeout: 5, steal: true }],
    [{ timeout: 5, ifAvailable: true }],
  ])('rejects with a NotSupportedError for %j', async (options) => {
    const error = await rejectionOf(request('a', options, never));
    expect(error).toBeInstanceOf(DOMException);
    expect(error).toMatchObject({ name: 'NotSupportedError', code: 9 });
    expect(await stateOf(manager, 'a')).toEqual({ held: [], pending: [] });
  });

  it('takes any object for options, functions too, and no options for undefined and null', async () => {
    for (const options of [undefined, null, {}, [], () => undefined, Object.create(null)]) {
      expect(await request('a', options, () => 7)).toBe(7);
    }
    for (const options of [0, 'text', true, 1n, Symbol('options')]) {
      expect(await rejectionOf(request('a', options, never))).toBeInstanceOf(TypeError);
    }
    const asFunction = Object.assign(() => undefined, { mode: 'shared' });
    expect(await request('a', asFunction, (lock: { mode: string }) => lock.mode)).toBe('shared');
  });

  it('takes the last of three arguments for the callback, even if it is undefined', async () => {
    expect(await rejectionOf(request('a', never, undefined))).toBeInstanceOf(TypeError);
    expect(await request('a', {}, () => 7, 'ignored')).toBe(7);
  });

  it('takes exclusive and shared for the mode, or what turns into them', async () => {
    const modeOf = (mode: unknown): Promise<unknown> =>
      request('a', { mode }, (lock: { mode: string }) => lock.mode);
    expect(await modeOf(undefined)).toBe('exclusive');
    expect(await modeOf('exclusive')).toBe('exclusive');
    expect(await modeOf('shared')).toBe('shared');
    expect(await modeOf(['shared'])).toBe('shared');
    for (const mode of ['foo', '', null, 1, Symbol('shared'), 'Shared']) {
      expect(await rejectionOf(modeOf(mode))).toBeInstanceOf(TypeError);
    }
  });

  it('takes for true what is true in a condition', async () => {
    const get = (ifAvailable: unknown): Promise<unknown> =>
      manager.request('a', () => request('a', { ifAvailable }, (lock: unknown) => lock));
    for (const value of [true, 1, 'false', {}]) expect(await get(value)).toBe(null);
    for (const value of [false, 0, '', null]) {
      const options = { ifAvailable: value, steal: value };
      expect(await request('b', options, (lock: unknown) => lock)).not.toBe(null);
    }
  });

  it('rejects with a TypeError for a value that is not an AbortSignal', async () => {
    for (const signal of ['text', 12.34, false, null, {}, Symbol('signal'), () => undefined, globalThis]) {
      expect(await rejectionOf(request('a', { signal }, never))).toBeInstanceOf(TypeError);
    }
    expect(await request('a', { signal: undefined }, () => 7)).toBe(7);
  });

  it('reads name, options in the order of their names, and then the callback', async () => {
    const read: string[] = [];
    const name = {
      toString() {
        read.push('name');
        return 'a';
      },
    };
    const values: Record<string, unknown> = {
      mode: { toString: () => (read.push('text of mode'), 'shared') },
    };
    const options = new Proxy(values, {
      get(target, key) {
        read.push(String(key));
        return target[String(key)];
      },
    });
    expect(await request(name, options, () => 7)).toBe(7);
    expect(read).toEqual(['name', 'ifAvailable', 'mode', 'text of mode', 'signal', 'steal', 'timeout']);
    read.length = 0;
    expect(await rejectionOf(request(name, options, 'none'))).toBeInstanceOf(TypeError);
    expect(read).toHaveLength(7);
    read.length = 0;
    values['signal'] = 5;
    expect(await rejectionOf(request(name, options, never))).toBeInstanceOf(TypeError);
    expect(read.at(-1)).toBe('signal');
  });

  it('rejects with what a getter throws', async () => {
    for (const key of ['ifAvailable', 'mode', 'signal', 'steal', 'timeout']) {
      const error = new Error(key);
      const options = Object.defineProperty({}, key, {
        get() {
          throw error;
        },
      });
      expect(await rejectionOf(request('a', options, never))).toBe(error);
    }
    expect(await stateOf(manager, 'a')).toEqual({ held: [], pending: [] });
  });

  it('checks the name and the combination of options before it looks at the signal', async () => {
    const signal = AbortSignal.abort(new Error('aborted'));
    expect(await rejectionOf(request('-a', { signal }, never))).toMatchObject({ name: 'NotSupportedError' });
    expect(await rejectionOf(request('a', { signal, steal: true }, never))).toMatchObject({
      name: 'NotSupportedError',
    });
  });
});
