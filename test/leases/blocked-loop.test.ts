import { once } from 'node:events';
import { MessageChannel, Worker, type MessagePort } from 'node:worker_threads';
import { describe, expect, it, onTestFinished } from 'vitest';
import { answerWithin, LeaseManager, MemoryLeaseStore, type LeaseStore } from 'stripelock';
import { block } from '../support/block.js';
import { rejectionOf, thrownBy } from '../support/waiting.js';

/** Milliseconds. */
const LIMIT = 100;
const TTL = 600;

/** Answers at once, in a thread of its own. */
const ECHO = `
  const { workerData } = require('node:worker_threads');
  workerData.on('message', (id) => workerData.postMessage(id));
  workerData.postMessage(0);
`;

/** A store of one's own whose answers come through a socket, as it were, and which limits the time for each. */
class Remote implements LeaseStore {
  readonly inner = new MemoryLeaseStore();
  readonly #port: MessagePort;
  #id = 0;
  readonly #answered = new Map<number, () => void>();

  static async start(): Promise<Remote> {
    const { port1, port2 } = new MessageChannel();
    const worker = new Worker(ECHO, { eval: true, workerData: port2, transferList: [port2] });
    onTestFinished(async () => {
      await worker.terminate();
    });
    const remote = new Remote(port1);
    await once(port1, 'message');
    return remote;
  }

  private constructor(port: MessagePort) {
    this.#port = port;
    port.on('message', (id: number) => this.#answered.get(id)?.());
  }

  tryAcquire(...of: Parameters<LeaseStore['tryAcquire']>): ReturnType<LeaseStore['tryAcquire']> {
    return this.#ask(() => this.inner.tryAcquire(...of));
  }

  renew(...of: Parameters<LeaseStore['renew']>): Promise<boolean> {
    return this.#ask(() => this.inner.renew(...of));
  }

  release(...of: Parameters<LeaseStore['release']>): Promise<boolean> {
    return this.#ask(() => this.inner.release(...of));
  }

  inspect(key: string): ReturnType<LeaseStore['inspect']> {
    return this.#ask(() => this.inner.inspect(key));
  }

  #ask<T>(operation: () => Promise<T>): Promise<T> {
    return answerWithin(LIMIT, async () => {
      const result = await operation();
      const id = ++this.#id;
      await new Promise<void>((resolve) => {
        this.#answered.set(id, resolve);
        this.#port.postMessage(id);
      });
      return result;
    });
  }
}

/**
 * Calls it, lets it send its request, and blocks the event loop before it can read the answer. That happens in an
 * immediate, after which Node runs timers, and only then reads what has arrived.
 */
async function blockedAfter<T>(
  call: () => Promise<T>,
  milliseconds: number,
): Promise<{ promise: Promise<T> }> {
  await new Promise((resolve) => setImmediate(resolve));
  const promise = call();
  promise.catch(() => undefined);
  for (let i = 0; i < 20; i++) await Promise.resolve();
  block(milliseconds);
  return { promise };
}

describe('a store of your own with a time limit, on an event loop that was blocked', () => {
  it('does not with answerWithin: acquire, renew, release, close', async () => {
    const store = await Remote.start();
    const manager = new LeaseManager({ store, renew: false });
    const acquired = await blockedAfter(() => manager.tryAcquire('key'), 3 * LIMIT);
    const lease = (await acquired.promise)!;
    expect(lease.held).toBe(true);
    const renewed = await blockedAfter(() => lease.renew(), 3 * LIMIT);
    expect(await renewed.promise).toBe(true);
    const released = await blockedAfter(() => lease.release(), 3 * LIMIT);
    expect(await released.promise).toBe(true);
    await manager.acquire('key');
    const closed = await blockedAfter(() => manager.close(), 3 * LIMIT);
    await closed.promise;
    expect(store.inner.size).toBe(0);
  });

  it('keeps a lease whose renewal was answered during the block, although its earlier deadline has passed', async () => {
    const store = await Remote.start();
    const manager = new LeaseManager({ store, ttl: TTL, renew: false });
    const lease = await manager.acquire('key');
    const { signal } = lease;
    const before = performance.now();
    const renewed = await blockedAfter(() => lease.renew(20 * TTL), 2 * TTL);
    expect(await renewed.promise).toBe(true);
    expect(signal.aborted).toBe(false);
    expect(lease.expiresAt).toBeGreaterThanOrEqual(before + 20 * TTL - 1);
    await manager.close();
  });
});

describe('answerWithin', () => {
  it('rejects in time, passes on what the operation does, and refuses bad arguments', async () => {
    const started = performance.now();
    const never = answerWithin(50, () => new Promise(() => undefined));
    expect(await rejectionOf(never)).toMatchObject({ code: 'ERR_LEASE_STORE' });
    expect(performance.now() - started).toBeGreaterThanOrEqual(49);
    expect(await answerWithin(20_000, () => Promise.resolve(5))).toBe(5);
    const failure = new Error('no');
    expect(await rejectionOf(answerWithin(20_000, () => Promise.reject(failure)))).toBe(failure);
    const throws = (): never => {
      throw failure;
    };
    expect(await rejectionOf(answerWithin(20_000, throws))).toBe(failure);
    for (const bad of ['1', -1, NaN, Infinity]) {
      const code = typeof bad === 'number' ? 'ERR_OUT_OF_RANGE' : 'ERR_INVALID_ARG_TYPE';
      expect(thrownBy(() => answerWithin(bad as number, () => Promise.resolve()))).toMatchObject({ code });
    }
    expect(thrownBy(() => answerWithin(1, 5 as never))).toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
  });
});
