import { describe, expect, it, onTestFinished } from 'vitest';
import { LockError } from 'stripelock';
import { FixedClock, leaseStoreContract } from 'stripelock/testing';
import type {
  Attempt,
  Backend,
  Granted,
  GrantedShared,
  Refused,
  Release,
  Releasing,
} from '../../lib/stores/server-store.js';
import type { ReleaseListener } from '../../lib/stores/wakers.js';
import type { ListingBackend } from '../../unbundled/stores/listing.js';
import { ListingServerStore, ServerStore, SeveralServerStore } from '../../unbundled/stores/server-store.js';
import { LONGEST_TURN } from '../../unbundled/stores/wakers.js';
import { MapBackend, MapServer } from '../support/map-server.js';

// The common part of all server stores. Tests of the stores have the rest.

const TERMS = { timeout: 30_000, drift: 0 };

leaseStoreContract({ describe, it, expect }, 'a store over a server of its own, three clients', () => {
  const clock = new FixedClock();
  const server = new MapServer(() => clock.now());
  const [store, ...peers] = [1, 2, 3].map(
    () => new SeveralServerStore(new MapBackend(server), { timeout: 30_000, drift: 0.001 }, undefined),
  );
  return {
    store: store!,
    peers,
    advance: (milliseconds) => clock.advance(milliseconds + 20),
    keepsInfo: true,
    reportsAbandonment: true,
    async dispose() {
      for (const made of [store!, ...peers]) await made.close();
    },
  };
});

/** A backend whose answers the test gives. */
class Scripted implements Backend {
  readonly title = 'the server';
  readonly asked: (Attempt & { answer: (answer: Granted | Refused) => void })[] = [];
  readonly askedShared: ((answer: GrantedShared | Refused) => void)[] = [];
  readonly passed: string[] = [];
  readonly listener: ReleaseListener[] = [];
  ended = 0;
  /** For each release, whether the store was in its turn. */
  readonly inTurn: boolean[] = [];
  releaseEnds: Release = 'unnotified';
  fails: () => Promise<never> | undefined = () => undefined;
  readonly releaseFeed = {
    retryAfter: 20,
    passOn: (name: string) => void this.passed.push(name),
    open: (listener: ReleaseListener) => {
      this.listener.push(listener);
      return () => this.ended++;
    },
  };

  nameOf(key: string): string {
    return key;
  }
  retries(error: unknown): boolean {
    return (error as Error).message === 'collision';
  }
  permanent(error: unknown): LockError | undefined {
    return (error as Error).message === 'denied' ? new LockError('ERR_DENIED', 'denied') : undefined;
  }
  acquire(_wanted: unknown, attempt: Attempt): Promise<Granted | Refused> {
    return this.fails() ?? new Promise((answer) => this.asked.push({ ...attempt, answer }));
  }
  acquireShared(): Promise<GrantedShared | Refused> {
    return new Promise((answer) => this.askedShared.push(answer));
  }
  renew(): Promise<boolean[]> {
    return this.fails() ?? Promise.resolve([true]);
  }
  keep(): Promise<boolean> {
    return this.fails() ?? Promise.resolve(true);
  }
  release([key]: readonly Releasing[]): Promise<Release[]> {
    this.inTurn.push(key!.inTurn === true);
    return this.fails() ?? Promise.resolve([this.releaseEnds]);
  }
  inspect(): Promise<undefined> {
    return this.fails() ?? Promise.resolve(undefined);
  }
}

function scene(timeout = 30_000): { backend: Scripted; store: ServerStore } {
  const backend = new Scripted();
  const store = new ServerStore(backend, { ...TERMS, timeout }, undefined);
  onTestFinished(() => store.close());
  return { backend, store };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const REFUSED: Refused = { place: 0, isRegistered: true };

/** A store that is subscribed to releases, and in which a waiter for the key has just left. */
function releaseFeed(): ReturnType<typeof scene> {
  const made = scene();
  made.store.onRelease('key', () => undefined)();
  made.backend.listener[0]!.subscribed();
  return made;
}

describe('an operation over a server', () => {
  it('is tried again while it collides', async () => {
    const { backend, store } = scene();
    let collisions = 5;
    backend.fails = () => (collisions-- > 0 ? Promise.reject(new Error('collision')) : undefined);
    expect(await store.renew('key', 'me', 1000)).toBe(true);
  });

  it('is not sent any more after its time limit', async () => {
    const { backend, store } = scene(30);
    let sent = 0;
    let isOver = false;
    let sentLate = 0;
    backend.fails = () => {
      sent++;
      if (isOver) sentLate++;
      return Promise.reject(new Error('collision'));
    };
    await expect(store.renew('key', 'me', 1000)).rejects.toThrow('the server has not answered within 30 ms');
    isOver = true;
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(sent).toBeGreaterThan(1);
    expect(sentLate).toBe(0);
  });

  it('fails with the error of the store, and its cause', async () => {
    const { backend, store } = scene();
    const cause = new Error('gone');
    backend.fails = () => Promise.reject(cause);
    await expect(store.release('key', 'me')).rejects.toMatchObject({
      code: 'ERR_LEASE_STORE',
      message: 'the server failed: gone',
      cause,
    });
  });

  it('fails in the same way if the client throws', async () => {
    const { backend, store } = scene();
    backend.fails = () => {
      throw new Error('closed');
    };
    await expect(store.inspect('key')).rejects.toMatchObject({ code: 'ERR_LEASE_STORE' });
  });

  it("fails with the backend's own error if no repetition can help", async () => {
    const { backend, store } = scene();
    backend.fails = () => Promise.reject(new Error('denied'));
    await expect(store.tryAcquire('key', 'me', 1000)).rejects.toMatchObject({ code: 'ERR_DENIED' });
  });

  it('is refused after the store was closed', async () => {
    const { store } = scene();
    await store.close();
    await expect(store.renew('key', 'me', 1000)).rejects.toThrow(/was closed/);
  });
});

describe('a grant over a server', () => {
  /** A store whose first attempt had no answer in time, and the tokens that are given back. */
  async function late(): Promise<
    ReturnType<typeof scene> & { back: bigint[]; grant: (token: bigint) => Granted }
  > {
    const made = scene(20);
    await expect(made.store.tryAcquire('key', 'me', 60_000)).rejects.toThrow(/has not answered/);
    const back: bigint[] = [];
    return { ...made, back, grant: (token) => ({ tokens: [token], giveBack: () => back.push(token) }) };
  }

  it('is given back if it comes too late', async () => {
    const { backend, back, grant } = await late();
    backend.asked[0]!.answer(grant(1n));
    await turn();
    expect(back).toEqual([1n]);
  });

  it('stays if it comes too late, and its owner may have the key through a later attempt', async () => {
    const { backend, store, back, grant } = await late();
    const again = store.tryAcquire('key', 'me', 60_000);
    backend.asked[0]!.answer(grant(2n));
    backend.asked[1]!.answer(grant(1n));
    expect(await again).toBe(1n);
    expect(back).toEqual([]);
  });

  it('stays if it comes after the TTL of the grant of a later attempt, which another thread may have renewed', async () => {
    const { backend, store, back, grant } = await late();
    const again = store.tryAcquire('key', 'me', 10);
    backend.asked[1]!.answer(grant(1n));
    expect(await again).toBe(1n);
    await new Promise((resolve) => setTimeout(resolve, 30));
    backend.asked[0]!.answer(grant(2n));
    await turn();
    expect(back).toEqual([]);
  });

  it('must have a higher token than the last one of the key', async () => {
    const { backend, store } = scene();
    const asked = store.tryAcquire('key', 'me', 60_000);
    backend.asked[0]!.answer({ tokens: [7n], giveBack: () => undefined });
    await asked;
    void store.tryAcquire('key', 'me', 60_000);
    void store.tryAcquire('other', 'me', 60_000);
    expect(backend.asked.map(({ known }) => known)).toEqual([[0n], [7n], [0n]]);
  });
});

describe('a waiter over a server', () => {
  it('is woken, one at a time and in turn', () => {
    const { backend, store } = releaseFeed();
    const woken: string[] = [];
    for (const name of ['a', 'b', 'c']) store.onRelease('key', () => woken.push(name));
    for (let i = 0; i < 4; i++) backend.listener[0]!.released('key');
    expect(woken).toEqual(['a', 'b', 'c', 'a']);
  });

  it('is woken by a release that is reported between the refusal and its wait', async () => {
    const { backend, store } = releaseFeed();
    const asked = store.tryAcquire('key', 'me', 1000);
    expect(backend.asked[0]!.isAwaited).toBe(true);
    backend.listener[0]!.released('key');
    backend.asked[0]!.answer({ place: 0, isRegistered: true });
    await asked;
    let woken = 0;
    store.onRelease('key', () => woken++);
    await turn();
    expect(woken).toBe(1);
    expect(backend.passed).toEqual([]);
  });

  it('asks again at once if the server does not know of its wait', async () => {
    const { backend, store } = releaseFeed();
    for (const isRegistered of [true, false]) {
      const asked = store.tryAcquire('key', 'me', 1000);
      backend.asked.at(-1)!.answer({ place: 0, isRegistered });
      await asked;
      let woken = 0;
      const leave = store.onRelease('key', () => woken++);
      await turn();
      expect(woken).toBe(isRegistered ? 0 : 1);
      leave();
    }
  });

  it('asks again when the store starts listening, also after an interruption', () => {
    const { backend, store } = scene();
    let woken = 0;
    store.onRelease('key', () => woken++);
    backend.listener[0]!.subscribed();
    backend.listener[0]!.interrupted();
    backend.listener[0]!.subscribed();
    expect(woken).toBe(2);
  });

  it('is woken when the lease that it waits for may have expired', async () => {
    const { backend, store } = releaseFeed();
    let woken = 0;
    store.onRelease('key', () => woken++);
    const asked = store.tryAcquire('key', 'me', 1000);
    backend.asked[0]!.answer({ place: 0, wakeIn: 5, isRegistered: true });
    await asked;
    // It is also woken at once, because the server does not know of its wait.
    await expect.poll(() => woken, { timeout: 20_000 }).toBe(2);
  });

  it('is woken by a release in the same store of which no other store was notified', async () => {
    const { store } = scene();
    const woken = new Promise<void>((resolve) => store.onRelease('key', resolve));
    await store.release('key', 'other');
    await woken;
  });

  it.each<[string, GrantedShared | Refused]>([
    ['refused', REFUSED],
    ['granted the key', { token: 1n, group: 'stripelock:readers:a' }],
  ])('is woken once after a release if the readers before it were %s', async (_, answer) => {
    const backend = new Scripted();
    const store = new ListingServerStore(backend as unknown as ListingBackend, TERMS, undefined);
    onTestFinished(() => store.close());
    const woken: string[] = [];
    for (const reader of ['a', 'b']) {
      store.onRelease('key', () => {
        woken.push(reader);
        void store.tryAcquireShared('key', reader, 1000);
      });
    }
    store.onRelease('key', () => woken.push('writer'));
    backend.listener[0]!.subscribed();
    for (let i = 0; i < 10; i++) {
      if (i === 5) {
        expect(woken.splice(0)).toEqual(['a', 'b', 'writer']);
        backend.listener[0]!.released('key');
      }
      for (const answered of backend.askedShared.splice(0)) answered(answer);
      await turn();
    }
    expect(woken).toEqual(['a', 'b', 'writer']);
  });

  it('gives its turn to another if it has left', async () => {
    const { backend, store } = releaseFeed();
    const leave = store.onRelease('key', () => undefined);
    backend.listener[0]!.released('key');
    expect(backend.passed).toEqual([]);
    leave();
    await turn();
    expect(backend.passed).toEqual(['key']);
    backend.listener[0]!.released('unknown');
    expect(backend.passed).toEqual(['key', 'unknown']);
  });

  it('leaves its turn to an attempt that was not answered', async () => {
    const { backend, store } = releaseFeed();
    const [first, second] = [store.tryAcquire('key', 'a', 1000), store.tryAcquire('key', 'b', 1000)];
    backend.listener[0]!.released('key');
    backend.asked[0]!.answer(REFUSED);
    await first;
    await turn();
    expect(backend.passed).toEqual([]);
    backend.asked[1]!.answer({ tokens: [1n], giveBack: () => undefined });
    await second;
    await turn();
    expect(backend.passed).toEqual(['key']);
  });
});

describe('the turn of a store at a key over a server', () => {
  const release = (store: ServerStore): Promise<boolean> => store.release('key', 'me');
  /** Whether the last release was in a turn. A busy machine may end some turns early, but not a thousand. */
  const isInTurn = ({ inTurn }: Scripted): boolean => {
    expect(inTurn.length).toBeLessThan(1000);
    return inTurn.at(-1) === true;
  };
  const busyFor = (milliseconds: number): void => {
    for (const end = performance.now() + milliseconds; performance.now() <= end;);
  };

  async function acquire({ backend, store }: ReturnType<typeof scene>): Promise<void> {
    const asked = store.tryAcquire('key', 'me', 1000);
    backend.asked.at(-1)!.answer({ tokens: [BigInt(backend.asked.length)], giveBack: () => undefined });
    await asked;
  }

  /**
   * Acquires and releases the key until a release was in the turn of the store. A busy machine may interrupt the thread in
   * between, and the turn may end by that.
   */
  async function untilInTurn(made: ReturnType<typeof scene>): Promise<void> {
    const { backend, store } = made;
    do {
      backend.releaseEnds = 'freed';
      await acquire(made);
      await release(store);
      backend.releaseEnds = 'reserved';
      await acquire(made);
      await release(store);
    } while (!isInTurn(backend));
  }

  /** Lets a waiter of the store wait. A waiter of which the server does not know is woken once, before this resolves. */
  async function wait({ store }: ReturnType<typeof scene>, woken: () => void): Promise<void> {
    store.onRelease('key', woken);
    await turn();
  }

  it('begins if the store requests the key at once after a release', async () => {
    const made = releaseFeed();
    await acquire(made);
    await release(made.store);
    expect(made.backend.inTurn).toEqual([false]);
    await untilInTurn(made);
  });

  it('does not begin if the store requests the key later', async () => {
    const made = releaseFeed();
    for (let i = 0; i < 10; i++) {
      await acquire(made);
      await release(made.store);
      await turn();
    }
    expect(made.backend.inTurn).not.toContain(true);
  });

  it('does not begin because the store requested the key at once after an earlier release', async () => {
    const made = releaseFeed();
    made.backend.releaseEnds = 'freed';
    for (let i = 0; i < 10; i++) {
      for (let j = 0; j < 2; j++) {
        await acquire(made);
        await release(made.store);
      }
      await turn();
      await acquire(made);
      await release(made.store);
      expect(made.backend.inTurn.at(-1)).toBe(false);
    }
  });

  it('does not begin if the thread is busy before it requests the key', async () => {
    const made = releaseFeed();
    for (let i = 0; i < 10; i++) {
      await acquire(made);
      await release(made.store);
      busyFor(2);
    }
    expect(made.backend.inTurn).not.toContain(true);
  });

  it('ends in time, even if acquisitions of the store wait', async () => {
    const made = releaseFeed();
    await untilInTurn(made);
    await wait(made, () => undefined);
    busyFor(LONGEST_TURN);
    // Another grant does not extend the turn.
    await acquire(made);
    await release(made.store);
    expect(made.backend.inTurn.at(-1)).toBe(false);
  });

  it('does not begin while the store is not notified of releases', async () => {
    const made = releaseFeed();
    made.backend.listener[0]!.interrupted();
    for (let i = 0; i < 10; i++) {
      await acquire(made);
      await release(made.store);
    }
    expect(made.backend.inTurn).not.toContain(true);
  });

  it('ends if the store does not request the reserved key', async () => {
    const made = releaseFeed();
    await untilInTurn(made);
    expect(made.backend.passed).toEqual([]);
    await turn();
    expect(made.backend.passed).toEqual(['key']);
    await release(made.store);
    expect(made.backend.inTurn.at(-1)).toBe(false);
  });

  it('wakes a waiter of the store, and ends if that waiter does not request the reserved key', async () => {
    const made = releaseFeed();
    /** For each wake-up, whether the store had passed the key on. */
    const woken: boolean[] = [];
    await wait(made, () => woken.push(made.backend.passed.length > 0));
    await untilInTurn(made);
    expect(woken.length).toBeGreaterThan(1);
    await turn();
    expect(made.backend.passed).toEqual(['key']);
    // The server has removed the store from its list, so the waiter must retry.
    expect(woken.filter((hadPassed) => hadPassed)).toHaveLength(1);
  });

  it('continues while a waiter of the store requests the reserved key', async () => {
    const made = releaseFeed();
    let asks = false;
    await wait(made, () => {
      if (asks) void made.store.tryAcquire('key', 'other', 1000);
    });
    made.backend.releaseEnds = 'reserved';
    do {
      asks = false;
      await acquire(made);
      asks = true;
      await release(made.store);
    } while (!isInTurn(made.backend));
    await turn();
    expect(made.backend.passed).toEqual([]);
  });

  it('ends if the answer to its release is lost', async () => {
    const made = releaseFeed();
    const { backend, store } = made;
    await wait(made, () => undefined);
    do {
      backend.fails = () => undefined;
      await acquire(made);
      backend.fails = () => Promise.reject(new Error('cut'));
      await expect(release(store)).rejects.toThrow('cut');
    } while (!isInTurn(backend));
    await turn();
    expect(backend.passed).toEqual(['key']);
  });

  it('ends if the store is closed', async () => {
    const made = releaseFeed();
    await untilInTurn(made);
    await made.store.close();
    expect(made.backend.passed).toEqual(['key']);
  });
});

describe('the subscription of a store over a server', () => {
  it('ends a moment after the last waiter, and begins with the next', async () => {
    const { backend, store } = scene();
    store.onRelease('key', () => undefined)();
    expect(backend.ended).toBe(0);
    await expect.poll(() => backend.ended, { timeout: 20_000 }).toBe(1);
    store.onRelease('key', () => undefined);
    expect(backend.listener).toHaveLength(2);
  });

  it('is opened again if it was lost, while somebody waits', async () => {
    const { backend, store } = scene();
    const leave = store.onRelease('key', () => undefined);
    backend.listener[0]!.lost();
    expect(backend.ended).toBe(1);
    await expect.poll(() => backend.listener.length, { timeout: 20_000 }).toBe(2);
    let woken = 0;
    store.onRelease('key', () => woken++);
    // Reports of an earlier one no longer count.
    backend.listener[0]!.subscribed();
    backend.listener[0]!.released('key');
    expect(woken).toBe(0);
    leave();
  });

  it('is opened again with the next waiter, if it was lost while none waited', async () => {
    const { backend, store } = scene();
    store.onRelease('key', () => undefined)();
    backend.listener[0]!.lost();
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(backend.listener).toHaveLength(1);
    store.onRelease('key', () => undefined);
    expect(backend.listener).toHaveLength(2);
  });

  it('is opened again if it does not come back from an interruption', async () => {
    const { backend, store } = scene();
    store.onRelease('key', () => undefined);
    backend.listener[0]!.subscribed();
    backend.listener[0]!.interrupted();
    await expect.poll(() => backend.listener.length, { timeout: 20_000 }).toBe(2);
    expect(backend.ended).toBe(1);
  });

  it('ends with the store', async () => {
    const { backend, store } = scene();
    let woken = 0;
    store.onRelease('key', () => woken++);
    await store.close();
    expect(backend.ended).toBe(1);
    backend.listener[0]!.released('key');
    store.onRelease('other', () => woken++);
    expect(woken).toBe(0);
    expect(backend.listener).toHaveLength(1);
  });
});
