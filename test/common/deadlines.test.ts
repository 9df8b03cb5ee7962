// Deadlines and the timer behind them, on a host whose timers fire when the test says so.
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { Deadlines, DeadlineTimer, type Timed } from '../../lib/common/deadlines.js';
import { Alarm } from '../../lib/common/timers.js';
import { seedFor } from '../support/seed.js';
import { below, randomFrom } from '../workers/random.mjs';

interface FakeTimer {
  readonly callback: () => void;
  readonly delay: number;
  keepsAlive: boolean;
}

const host = vi.hoisted(() => ({
  timers: [] as FakeTimer[],
  microtasks: [] as (() => void)[],
  failing: undefined as string | undefined,
  fail(what: string): void {
    if (host.failing === what) throw new RangeError('Maximum call stack size exceeded');
  },
}));

vi.mock('../../lib/common/host.js', () => ({
  startTimer(callback: () => void, delay: number): FakeTimer {
    host.fail('start');
    const timer = { callback, delay, keepsAlive: true };
    host.timers.push(timer);
    return timer;
  },
  stopTimer(timer: FakeTimer): void {
    host.fail('stop');
    host.timers.splice(host.timers.indexOf(timer), 1);
  },
  keepAlive: (timer: FakeTimer | undefined) => timer && (timer.keepsAlive = true),
  unrefTimer: (timer: FakeTimer | undefined) => timer && (timer.keepsAlive = false),
  defer(run: () => void): void {
    host.fail('defer');
    host.microtasks.push(run);
  },
}));

beforeEach(() => {
  host.timers.length = 0;
  host.microtasks.length = 0;
  host.failing = undefined;
});

const delays = (): number[] => host.timers.map(({ delay }) => delay);

/** Ends the call that the test has made, as far as the host can tell. */
function runMicrotasks(): void {
  for (const run of host.microtasks.splice(0)) run();
}

function fire(): void {
  host.timers.shift()!.callback();
}

describe('the heap of deadlines', () => {
  it('gives them in their order, also when some are taken out in between', () => {
    const random = randomFrom(seedFor('deadlines'));
    const deadlines = new Deadlines<Timed>();
    const left = new Set<Timed>();
    for (let step = 0; step < 20_000; step++) {
      if (left.size === 0 || random() < 0.52) {
        const entry = { deadline: random() < 0.05 ? Infinity : below(random, 1000), place: -1 };
        deadlines.add(entry);
        left.add(entry);
      } else {
        const entries = [...left];
        const entry = random() < 0.5 ? deadlines.first : entries[below(random, entries.length)];
        if (entry === undefined) continue;
        deadlines.remove(entry);
        left.delete(entry);
      }
      if (step % 100 === 0) {
        const earliest = Math.min(...[...left].map(({ deadline }) => deadline));
        expect(deadlines.first?.deadline ?? Infinity).toBe(earliest);
      }
    }
  });
});

describe('an alarm', () => {
  it('is one timer, for the earliest time that was asked for', () => {
    const alarm = new Alarm(() => undefined, true);
    alarm.setFor(120, 20);
    alarm.setFor(150, 50);
    expect(delays()).toEqual([20]);
    alarm.setFor(110, 9.5);
    expect(delays()).toEqual([10]);
    expect([alarm.due, alarm.delay]).toEqual([110, 9.5]);
  });

  it('fires once, can then be set for later, and is not set while it fires', () => {
    const rung: number[] = [];
    const alarm = new Alarm(() => rung.push(alarm.due), true);
    alarm.setFor(110, 10);
    fire();
    expect(rung).toEqual([Infinity]);
    alarm.setFor(200, 90);
    expect(delays()).toEqual([90]);
  });

  it('fires no timer at once that is due at once, or further ahead than timers reach', () => {
    const alarm = new Alarm(() => undefined, true);
    alarm.setFor(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
    alarm.setFor(100, -5);
    expect(delays()).toEqual([1]);
    host.timers.length = 0;
    new Alarm(() => undefined, true).setFor(Number.MAX_VALUE, Number.MAX_VALUE);
    new Alarm(() => undefined, true, 100).setFor(1000, 1000);
    expect(delays()).toEqual([2 ** 31 - 1, 100]);
  });

  it('keeps the event loop alive by its last setting, also with later timers', () => {
    const alarm = new Alarm(() => undefined, false);
    const keeps = (): boolean[] => host.timers.map(({ keepsAlive }) => keepsAlive);
    alarm.setFor(110, 10);
    expect(keeps()).toEqual([false]);
    alarm.keepAlive(true);
    expect(keeps()).toEqual([true]);
    alarm.setFor(105, 5);
    expect(keeps()).toEqual([true]);
    alarm.keepAlive(false);
    fire();
    alarm.setFor(120, 10);
    expect(keeps()).toEqual([false]);
  });

  it('does not count as set if no timer could be set', () => {
    let rung = 0;
    const alarm = new Alarm(() => rung++, true);
    host.failing = 'start';
    expect(() => alarm.setFor(110, 10)).toThrow(RangeError);
    expect([alarm.due, alarm.delay, delays()]).toEqual([Infinity, Infinity, []]);
    host.failing = undefined;
    alarm.setFor(120, 20);
    host.failing = 'start';
    expect(() => alarm.setFor(110, 10)).toThrow(RangeError);
    expect([alarm.due, delays()]).toEqual([120, [20]]);
    fire();
    expect(rung).toBe(1);
  });

  it('fires at the new time if the old timer could not be stopped', () => {
    let rung = 0;
    const alarm = new Alarm(() => rung++, true);
    alarm.setFor(120, 20);
    host.failing = 'stop';
    expect(() => alarm.setFor(110, 10)).toThrow(RangeError);
    expect([alarm.due, delays()]).toEqual([110, [20, 10]]);
    fire();
    fire();
    expect(rung).toBe(2);
  });
});

describe('a deadline timer', () => {
  let now = 0;
  const clock = (): number => now;
  const entry = (deadline: number): Timed => ({ deadline, place: -1 });

  beforeEach(() => {
    now = 100;
  });

  it('is set for the earliest deadline, and after it for the next', () => {
    const timer = new DeadlineTimer<Timed>(clock, () => undefined, true);
    const [first, second] = [entry(130), entry(150)];
    timer.add(entry(Infinity));
    runMicrotasks();
    expect(delays()).toEqual([]);
    timer.add(second);
    timer.add(first);
    runMicrotasks();
    expect(delays()).toEqual([30]);
    now = 130;
    fire();
    expect(timer.first).toBe(first);
    timer.remove(first);
    timer.rearm();
    expect(timer.first).toBe(second);
    expect(delays()).toEqual([20]);
    timer.remove(second);
    expect(timer.toArray()).toEqual([]);
  });

  it('fires before its deadlines if asked to', () => {
    const timer = new DeadlineTimer<Timed>(clock, () => undefined, true);
    timer.add(entry(130));
    timer.fireBy(140);
    runMicrotasks();
    expect(delays()).toEqual([30]);
    timer.fireBy(110);
    timer.fireBy(120);
    runMicrotasks();
    expect(delays()).toEqual([10]);
    now = 110;
    fire();
    timer.rearm();
    expect(delays()).toEqual([20]);
  });

  it('sets no timer, and changes none, within a call of the program, which may be near a stack overflow', () => {
    const timer = new DeadlineTimer<Timed>(clock, () => undefined, false);
    timer.add(entry(130));
    timer.fireBy(110);
    timer.keepAlive(true);
    expect(host.timers).toEqual([]);
    // The call itself takes a while.
    now = 105;
    runMicrotasks();
    expect(host.timers).toMatchObject([{ delay: 5, keepsAlive: true }]);
    timer.keepAlive(false);
    expect(host.timers).toMatchObject([{ keepsAlive: true }]);
    runMicrotasks();
    expect(host.timers).toMatchObject([{ keepsAlive: false }]);
  });

  it('loses no deadline where a stack overflow ends the call that adds it, or no timer can be set', () => {
    const timer = new DeadlineTimer<Timed>(clock, () => undefined, true);
    const first = entry(130);
    host.failing = 'defer';
    expect(() => timer.add(first)).toThrow(RangeError);
    host.failing = undefined;
    timer.add(entry(150));
    host.failing = 'start';
    expect(runMicrotasks).toThrow(RangeError);
    host.failing = undefined;
    timer.add(entry(160));
    runMicrotasks();
    expect(timer.first).toBe(first);
    expect(delays()).toEqual([30]);
  });
});
