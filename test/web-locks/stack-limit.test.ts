// T1 for web locks, where the stack overflows on the way: no lock stays held, and every promise settles.
import { expect, it } from 'vitest';
import type { LockManager, LockOptions } from 'stripelock/web-locks';
import { engines as all, hold } from './managers.js';

/** The JavaScript engine promises exclusion alone there. */
const engines = all.filter(({ engine }) => engine === 'native');

const FREE = { held: [], pending: [] };
/** Calls of a small function: from no room on the stack to enough for a request. */
const FRAMES = 500;
/** How many words of 8 bytes the end of the stack is moved by, at most: about what a call takes. */
const WORDS = 20;

/** Calls `last` with each number of frames that are left on the stack, up to {@link FRAMES}. Returns how many there are. */
function descend(last: (room: number) => void, padding: readonly number[]): number {
  let room: number;
  try {
    room = descend.call(undefined, last, padding, ...(padding as []));
  } catch {
    return 0;
  }
  // On the way back.
  if (room < FRAMES) {
    try {
      last(room);
    } catch {
      // No room for that.
    }
  }
  return room + 1;
}

const paddings = Array.from({ length: WORDS }, (_, words) => Array.from({ length: words }, () => 0));

class Requests {
  calls = 0;
  /** Requests that were not made, since there was no room for a promise either. */
  thrown = 0;
  readonly #promises: Promise<unknown>[] = [];

  add(manager: LockManager, name: string, options: LockOptions): void {
    try {
      this.#promises.push(
        manager.request(name, options, () => {
          this.calls++;
        }),
      );
    } catch {
      this.thrown++;
    }
  }

  /** Waits for all. Returns the errors' names. */
  async failures(): Promise<string[]> {
    const settled = await Promise.allSettled(this.#promises);
    return settled.flatMap((result) => (result.status === 'rejected' ? [(result.reason as Error).name] : []));
  }
}

it.each(engines)(
  'a request at the limit of the stack is made, or leaves nothing behind ($engine)',
  async ({ makeManager }) => {
    const manager = makeManager();
    const { signal } = new AbortController();
    const kinds: readonly LockOptions[] = [
      {},
      { mode: 'shared', signal },
      { steal: true },
      { ifAvailable: true },
      { timeout: 60_000 },
    ];
    const requests = new Requests();
    const request = (room: number): void =>
      requests.add(manager, room % 3 === 0 ? 'a' : `name ${room}`, kinds[room % kinds.length]!);
    // To compile a function takes more stack than to call it.
    for (const room of kinds.keys()) request(room);
    for (let round = 0; round < 3; round++) descend(request, []);
    const failures = await requests.failures();
    for (const name of failures) expect(['RangeError', 'AbortError']).toContain(name);
    expect(failures.filter((name) => name === 'RangeError').length + requests.thrown).toBeGreaterThan(0);
    expect(requests.calls).toBeGreaterThan(100);
    expect(await manager.query()).toEqual(FREE);
  },
);

it.each(engines)(
  'a request that is to wait, at the limit of the stack, gets its turn or leaves nothing behind ($engine)',
  async ({ makeManager }) => {
    const manager = makeManager();
    const { signal } = new AbortController();
    const kinds: readonly LockOptions[] = [{}, { mode: 'shared' }, { signal }, { timeout: 60_000 }];
    let failed = 0;
    let called = 0;
    for (const padding of paddings) {
      const held = await hold(manager, 'a');
      const requests = new Requests();
      for (const options of kinds) requests.add(manager, 'a', options);
      descend((room) => requests.add(manager, 'a', kinds[room % kinds.length]!), padding);
      held.release();
      const failures = await requests.failures();
      for (const name of failures) expect(name).toBe('RangeError');
      failed += failures.length + requests.thrown;
      called += requests.calls;
      expect(await manager.query()).toEqual(FREE);
    }
    expect(failed).toBeGreaterThan(0);
    expect(called).toBeGreaterThan(100);
  },
);
