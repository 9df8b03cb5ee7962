import { AsyncLocalStorage } from 'node:async_hooks';
import { tracingChannel } from 'node:diagnostics_channel';
import { describe, expect, it, onTestFinished } from 'vitest';
import { KeyedLock, LockTimeoutError, StripedLock, type AcquireMessage, type BaseLock } from 'stripelock';
import { seedFor } from '../support/seed.js';
import { CALL, FAILED_CALL, FAILED_PROMISE, listenToSpans, PROMISE } from '../support/spans.js';
import { thrownBy } from '../support/waiting.js';
import { below, randomFrom } from '../workers/random.mjs';

for (const engine of ['native', 'javascript'] as const) {
  const makers: Record<string, () => BaseLock> = {
    StripedLock: () => new StripedLock({ engine, name: 'spans' }),
    KeyedLock: () => new KeyedLock({ engine, name: 'spans' }),
    'KeyedLock, traced': () => new KeyedLock({ engine, name: 'spans', trace: true }),
  };
  for (const [kind, makeLock] of Object.entries(makers)) {
    describe(`the tracing channel, ${kind}, ${engine} engine`, () => {
      it('has a span for each acquisition, whatever its outcome', async () => {
        const lock = makeLock();
        const spans = listenToSpans();
        const guard = lock.acquireSync('key');
        expect(lock.tryAcquire('key', { mode: 'shared' })).toBeUndefined();
        const refused = thrownBy(() => lock.acquireSync(['key', 'other'], { timeout: 0 }));
        const bad = thrownBy(() => lock.acquireSync(5n as never));
        const abort = new AbortController();
        const aborted = lock.acquire('key', { signal: abort.signal }).catch((error: unknown) => error);
        const late = lock.withLock('key', { timeout: 1 }, () => 1).catch((error: unknown) => error);
        const next = lock.acquire('key');
        abort.abort('enough');
        await late;
        guard.release();
        const second = await next;
        second.release();

        const common = { lock: 'spans', keys: ['key'], mode: 'exclusive', threadId: 0 };
        expect([...spans]).toEqual([
          [{ ...common, kind: 'sync', result: guard }, CALL],
          [{ ...common, kind: 'sync', mode: 'shared', result: undefined }, CALL],
          [{ ...common, kind: 'sync', keys: ['key', 'other'], error: refused }, FAILED_CALL],
          [{ ...common, kind: 'sync', keys: [5n], error: bad }, FAILED_CALL],
          [{ ...common, kind: 'async', error: await aborted }, FAILED_PROMISE],
          [{ ...common, kind: 'async', error: await late }, FAILED_PROMISE],
          [{ ...common, kind: 'async', result: second }, PROMISE],
        ]);
        expect(await aborted).toBe('enough');
        expect(await late).toBeInstanceOf(LockTimeoutError);
      });

      it('has well-formed spans over ten thousand acquisitions that are granted, timed out, aborted or refused', async () => {
        const lock = makeLock();
        const spans = listenToSpans();
        const random = randomFrom(seedFor(`spans of ${kind}, ${engine}`));
        const outcomes = { granted: 0, timeout: 0, aborted: 0, refused: 0 };
        const note = (error: unknown): void => {
          outcomes[error instanceof LockTimeoutError ? 'timeout' : 'aborted']++;
        };
        const use = async (i: number): Promise<void> => {
          const keys = i % 3 === 0 ? [`key ${below(random, 4)}`, below(random, 4)] : below(random, 4);
          const mode = i % 5 === 0 ? 'shared' : 'exclusive';
          if (i % 7 === 0) {
            const guard = lock.tryAcquire(keys, { mode });
            outcomes[guard === undefined ? 'refused' : 'granted']++;
            guard?.release();
            return;
          }
          const abort = new AbortController();
          const options = {
            mode,
            ...(i % 11 === 0 ? { timeout: below(random, 2) } : {}),
            ...(i % 13 === 0 ? { signal: abort.signal } : {}),
          } as const;
          const waiting = lock.acquire(keys, i % 17 === 0 ? undefined : options);
          if (i % 2 === 0) abort.abort();
          await waiting.then(async (guard) => {
            outcomes.granted++;
            await Promise.resolve();
            guard.release();
          }, note);
        };
        for (let i = 0; i < 10_000; i += 20) {
          await Promise.all(Array.from({ length: 20 }, (_, j) => use(i + j)));
        }
        expect(spans.size).toBe(10_000);
        for (const count of Object.values(outcomes)) expect(count).toBeGreaterThan(10);
        const told = { granted: 0, timeout: 0, aborted: 0, refused: 0 };
        for (const [message, events] of spans) {
          const { kind: how, error, result } = message;
          const [well, failed] = how === 'sync' ? [CALL, FAILED_CALL] : [PROMISE, FAILED_PROMISE];
          expect(events).toEqual(error === undefined ? well : failed);
          if (error !== undefined) told[error instanceof LockTimeoutError ? 'timeout' : 'aborted']++;
          else told[result === undefined ? 'refused' : 'granted']++;
        }
        expect(told).toEqual(outcomes);
      });
    });
  }

  it(`runs acquisitions with the store that a subscriber binds to the start, ${engine} engine`, async () => {
    const storage = new AsyncLocalStorage<string>();
    const channel = tracingChannel<string, AcquireMessage>('stripelock:acquire');
    channel.start.bindStore(storage, ({ keys }: AcquireMessage) => `span of ${String(keys[0])}`);
    onTestFinished(() => void channel.start.unbindStore(storage));
    const stores: (string | undefined)[] = [];
    const subscribers = { asyncEnd: () => void stores.push(storage.getStore()) };
    channel.subscribe(subscribers as never);
    onTestFinished(() => {
      channel.unsubscribe(subscribers as never);
    });
    const lock = new StripedLock({ engine });
    const guard = await lock.acquire('a');
    const next = lock.acquire('a');
    guard.release();
    (await next).release();
    expect(stores).toEqual(['span of a', 'span of a']);
    expect(storage.getStore()).toBeUndefined();
  });

  it(`does not change the callers' results, ${engine} engine`, async () => {
    listenToSpans();
    const lock = new StripedLock({ engine });
    const guard = lock.acquireSync('key');
    expect(guard.keys).toEqual(['key']);
    const waiting = lock.acquire(['key']);
    expect(waiting).toBeInstanceOf(Promise);
    guard.release();
    (await waiting).release();
    expect(await lock.withLock('key', ({ held }) => held)).toBe(true);
    expect(lock.withLockSync('key', ({ held }) => held)).toBe(true);
    expect(lock.stats()).toMatchObject({ held: 0, waiting: 0 });
  });
}
