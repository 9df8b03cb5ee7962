import { describe, expect, it } from 'vitest';
import { check } from './checker.mjs';
import { StandingClock } from './planted.mjs';
import { FencedResource } from './resource.mjs';

/** A grant at `from`, which is certainly held until `until`. */
function hold(client: string, token: bigint, from: number, until: number): object[] {
  return [
    { client, op: 'acquire', key: 'key', token, call: from - 1, return: from },
    { client, op: 'held', key: 'key', token, at: until },
  ];
}
const violations = (history: object[], losses: object[] = [], resource = new FencedResource()): string[] =>
  check(history as Parameters<typeof check>[0], resource, losses as Parameters<typeof check>[2]);

it('finds nothing wrong with holds that follow each other', () => {
  expect(violations([...hold('a', 1n, 10, 20), ...hold('b', 2n, 20, 30)])).toEqual([]);
});

it('finds certain holds that overlap, also when another lies between', () => {
  expect(violations([...hold('a', 1n, 10, 20), ...hold('b', 2n, 19, 30)])).toHaveLength(1);
  const around = [...hold('a', 1n, 10, 90), ...hold('b', 2n, 20, 30), ...hold('c', 3n, 40, 50)];
  expect(violations(around)).toHaveLength(2);
});

it('lets shared holds overlap each other, but no exclusive one', () => {
  const shared = (...args: Parameters<typeof hold>): object[] =>
    hold(...args).map((entry) => ({ ...entry, ...('call' in entry && { shared: true }) }));
  expect(violations([...shared('a', 1n, 10, 30), ...shared('b', 1n, 15, 20)])).toEqual([]);
  expect(violations([...shared('a', 1n, 10, 30), ...hold('b', 2n, 20, 40)])).toHaveLength(1);
  expect(violations([...hold('a', 1n, 10, 30), ...shared('b', 2n, 20, 40)])).toHaveLength(1);
  // Behind another reader, which ends earlier.
  const readers = [...shared('a', 1n, 10, 50), ...shared('b', 1n, 15, 20)];
  expect(violations([...readers, ...hold('c', 2n, 30, 40)])).toHaveLength(1);
  // The same token only for readers that hold together.
  expect(violations([...shared('a', 1n, 10, 11), ...shared('b', 1n, 20, 21)])).toEqual([]);
  expect(violations([...shared('a', 2n, 10, 11), ...shared('b', 1n, 20, 21)])).toHaveLength(1);
  expect(violations([...hold('a', 1n, 10, 11), ...shared('b', 1n, 20, 21)])).toHaveLength(1);
});

it('excuses an overlap only if the store lost its data between the two grants', () => {
  const history = [...hold('a', 1n, 10, 30), ...hold('b', 2n, 20, 40)];
  expect(violations(history, [{ from: 14, to: 15 }])).toEqual([]);
  expect(violations(history, [{ from: 1, to: 2 }])).toHaveLength(1);
  expect(violations(history, [{ from: 50, to: 60 }])).toHaveLength(1);
  // Granted before the loss, but its holder got the answer only after another grant that followed the loss.
  const late = { client: 'b', op: 'acquire', key: 'key', token: 1n, call: 5, return: 20 };
  const told = [...hold('a', 2n, 10, 30), late, { client: 'b', op: 'held', key: 'key', token: 1n, at: 21 }];
  expect(violations(told, [{ from: 6, to: 7 }])).toEqual([]);
  expect(violations(told, [{ from: 2, to: 3 }])).toHaveLength(1);
});

it('finds a token that does not rise, and lets concurrent grants be', () => {
  expect(violations([...hold('a', 2n, 10, 11), ...hold('b', 1n, 20, 21)])).toHaveLength(1);
  expect(violations([...hold('a', 1n, 10, 11), ...hold('b', 1n, 20, 21)])).toHaveLength(1);
  const concurrent = { client: 'b', op: 'acquire', key: 'key', token: 1n, call: 5, return: 30 };
  expect(violations([...hold('a', 2n, 10, 11), concurrent])).toEqual([]);
});

it('finds an accepted write that is missing, and one that overwrote another', () => {
  const resource = new FencedResource();
  resource.write('key', 1n, 1);
  const told = (value: number): object => ({ client: 'a', op: 'write', key: 'key', token: 1n, value });
  expect(violations([told(1)], [], resource)).toEqual([]);
  expect(violations([told(1), told(2)], [], resource)).toHaveLength(1);
  resource.write('key', 2n, 1);
  expect(violations([told(1)], [], resource)).toHaveLength(1);
});

describe('what a grant shows of the last holder', () => {
  const seen = (client: string, token: bigint, from: number, abandoned?: boolean): object => ({
    ...{ client, op: 'acquire', key: 'key', token, call: from - 1, return: from },
    ...{ abandoned, ttl: 20 },
  });
  const leave = (client: string, token: bigint, at: number): object => ({
    client,
    op: 'leave',
    key: 'key',
    token,
    at,
  });
  const release = (client: string, token: bigint, freed: unknown): object => ({
    ...{ client, op: 'release', key: 'key', token, call: 12, return: 13 },
    freed,
  });

  it('must be that it was killed or stopped', () => {
    const first = seen('a', 1n, 10, false);
    expect(violations([first, seen('b', 2n, 20, false)])).toHaveLength(1);
    expect(violations([first, leave('a', 1n, 30), seen('b', 2n, 20, false)])).toHaveLength(1);
    expect(violations([first, seen('b', 2n, 20, true)])).toEqual([]);
    // Its release may have reached the store.
    expect(violations([first, leave('a', 1n, 15), seen('b', 2n, 20, false)])).toEqual([]);
    expect(violations([first, seen('b', 2n, 20, false)], [{ from: 14, to: 15 }])).toEqual([]);
    expect(violations([first, seen('b', 2n, 20)])).toEqual([]);
  });

  it('must not be that it was killed, if it has released the key', () => {
    const first = [seen('a', 1n, 10, false), leave('a', 1n, 12), release('a', 1n, true)];
    expect(violations([...first, seen('b', 2n, 20, true)])).toHaveLength(1);
    expect(violations([...first, seen('b', 2n, 20, false)])).toEqual([]);
    // The server may have forgotten the release when it was killed, but no grant.
    const history = [...first, seen('b', 2n, 20, true)] as Parameters<typeof check>[0];
    expect(check(history, new FencedResource(), [], [], [{ from: 14, to: 15 }])).toEqual([]);
    // Another may have had it in between, until its TTL passed, and died before it wrote that down.
    expect(violations([...first, seen('b', 3n, 32, true)])).toEqual([]);
    const late = [seen('a', 1n, 10, false), leave('a', 1n, 12), release('a', 1n, false)];
    expect(violations([...late, seen('b', 2n, 20, true)])).toEqual([]);
  });

  it('must be what readers saw, if they held the key last', () => {
    const reader = { ...seen('a', 1n, 10, false), shared: true };
    const until = { client: 'a', op: 'held', key: 'key', token: 1n, at: 15 };
    expect(violations([reader, until, seen('b', 2n, 20, true)])).toHaveLength(1);
    expect(violations([reader, until, seen('b', 2n, 20, false)])).toEqual([]);
    // Another may have had it in between, and died before it wrote that down.
    expect(violations([reader, until, seen('b', 3n, 36, true)])).toEqual([]);
    // One that joins.
    expect(violations([reader, { ...seen('b', 1n, 12, false), shared: true }])).toEqual([]);
    const repairing = { ...reader, abandoned: true };
    expect(violations([repairing, until, seen('b', 2n, 20, false)])).toHaveLength(1);
    expect(violations([repairing, leave('a', 1n, 15), seen('b', 2n, 20, false)])).toHaveLength(1);
    expect(violations([repairing, until, seen('b', 2n, 20, true)])).toEqual([]);
    // A lease of several keys does not show which of them was abandoned.
    for (const abandoned of [true, false]) {
      const several = { ...reader, abandoned: undefined };
      expect(violations([several, until, seen('b', 2n, 20, abandoned)])).toEqual([]);
    }
    // A reader sees that a writer was killed.
    expect(
      violations([seen('a', 1n, 10, false), { ...seen('b', 2n, 40, false), shared: true }]),
    ).toHaveLength(1);
  });
});

it('the resource refuses what is staler than a read or a write', () => {
  const resource = new FencedResource();
  expect(resource.read('key', 5n)).toBe(0);
  expect(resource.write('key', 4n, 1)).toBe(false);
  expect(resource.read('key', 4n)).toBeUndefined();
  expect(resource.write('key', 5n, 1)).toBe(true);
  expect(resource.value('key')).toBe(1);
});

it('the planted clock stops while requests are pending, and continues after those that overlapped', async () => {
  const clock = new StandingClock();
  const ends: (() => void)[] = [];
  const request = (): Promise<void> => new Promise((resolve) => ends.push(resolve));
  const pending = [clock.standDuring(request), clock.standDuring(request)];
  const stood = clock.now();
  ends[0]!();
  await pending[0];
  expect(clock.now()).toBe(stood);
  ends[1]!();
  await pending[1];
  await expect.poll(() => clock.now()).toBeGreaterThan(stood);
});
