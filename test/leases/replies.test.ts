// The time limit of replies on an event loop whose turns take a given time each: the host is a fake one.
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Replies } from '../../unbundled/lease/contract/replies.js';

interface FakeTimer {
  readonly at: number;
  readonly run: () => void;
}

/** The clock, in milliseconds, and what the event loop is to call. */
const host = vi.hoisted(() => ({
  now: 0,
  timers: new Set<FakeTimer>(),
  immediates: [] as (() => void)[],
}));

vi.mock('../../unbundled/common/host.js', async (original) => ({
  ...(await original<object>()),
  performance: { now: () => host.now },
  startTimer(run: () => void, delay: number): FakeTimer {
    const timer = { at: host.now + delay, run };
    host.timers.add(timer);
    return timer;
  },
  stopTimer: (timer: FakeTimer) => host.timers.delete(timer),
  unrefTimer: () => undefined,
  afterTurn: (run: () => void) => host.immediates.push(run),
}));

/** Timers come before sockets, and immediates after them. */
function turn(milliseconds: number, sockets = (): void => undefined): void {
  host.now += milliseconds;
  for (const timer of [...host.timers]) if (timer.at <= host.now && host.timers.delete(timer)) timer.run();
  sockets();
  for (const run of host.immediates.splice(0)) run();
}

const LIMIT = 100;

interface Expected {
  readonly asked: number;
  /** When it was given up. */
  late?: number;
}

function expectReply(replies: Replies): Expected & { readonly awaited: ReturnType<Replies['expect']> } {
  const expected: Expected = { asked: host.now };
  const awaited = replies.expect(() => (expected.late = host.now));
  return Object.assign(expected, { awaited });
}

describe('the time limit of a reply', () => {
  let replies: Replies;
  beforeEach(() => {
    host.timers.clear();
    host.immediates.length = 0;
    replies = new Replies(LIMIT, 'the server');
  });

  it('ends although every turn of the event loop takes 75 ms', () => {
    const reply = expectReply(replies);
    for (let i = 0; i < 100 && reply.late === undefined; i++) turn(75);
    // The second turn is 50 ms late, which it gets; the third one is later by less.
    expect(reply.late! - reply.asked).toBe(225);
  });

  it('passes in the first turn after it is due, on an event loop that turns', () => {
    const reply = expectReply(replies);
    for (let i = 0; i < 1000 && reply.late === undefined; i++) turn(1);
    expect(reply.late! - reply.asked).toBe(LIMIT);
  });

  it('ends although each turn is longer than the last, for all replies in their order', () => {
    const all: Expected[] = [];
    for (let length = 10; length < 4 * LIMIT; length += 10) {
      if (all.length < 10) all.push(expectReply(replies));
      turn(length);
    }
    const late = all.map((reply) => reply.late ?? Infinity);
    expect(Math.max(...late)).toBeLessThan(host.now);
    expect(late).toEqual([...late].sort((a, b) => a - b));
  });

  it('gives a reply the time of one long block, once', () => {
    const reply = expectReply(replies);
    turn(10 * LIMIT);
    expect(reply.late).toBeUndefined();
    turn(LIMIT - 1);
    expect(reply.late).toBeUndefined();
    turn(10 * LIMIT);
    expect(reply.late).toBe(host.now);
  });

  it('lets a reply in that has arrived in the meantime', () => {
    const reply = expectReply(replies);
    turn(LIMIT, () => expect(replies.arrived(reply.awaited)).toBe(true));
    turn(10 * LIMIT);
    expect(reply.late).toBeUndefined();
  });
});
