import fc from 'fast-check';
import { expect } from 'vitest';
import type { Guard, LockMode, StripedLock } from 'stripelock';
import { turns, until } from './waiting.js';

/** Holds and requests, as sets of stripes, in the naive model. */
interface Held {
  readonly guard: Guard;
  readonly stripes: ReadonlySet<number>;
  readonly mode: LockMode;
}

interface Pending {
  readonly number: number;
  readonly stripes: ReadonlySet<number>;
  readonly mode: LockMode;
  readonly abort: AbortController;
}

/** fast-check makes a model for each run; ours is in the {@link Subject}, with the lock. */
type NoModel = Record<string, never>;
export const freshModel = (): NoModel => ({});

/** A lock, and the model of what must be true of it. */
export class Subject {
  readonly held: Held[] = [];
  private pending: Pending[] = [];
  private nextNumber = 0;
  private readonly failures: unknown[] = [];

  constructor(private readonly lock: StripedLock) {}

  tryAcquire(keys: readonly number[], mode: LockMode): void {
    const wanted = this.stripesOf(keys);
    const guard = this.lock.tryAcquire(keys, { mode });
    if (guard) this.granted(guard, wanted, mode);
    // A waiter may already hold some of its stripes, so if they overlap both answers are right.
    else expect(this.conflictsWithHeld(wanted, mode) || this.overlapsPending(wanted)).toBe(true);
  }

  acquireSync(keys: readonly number[], mode: LockMode): void {
    const wanted = this.stripesOf(keys);
    // Blocking for a stripe of this thread would be a deadlock, and no other thread holds any.
    if (this.conflictsWithHeld(wanted, mode) || this.overlapsPending(wanted)) return;
    this.granted(this.lock.acquireSync(keys, { mode }), wanted, mode);
  }

  acquire(keys: readonly number[], mode: LockMode): void {
    const wanted = this.stripesOf(keys);
    const waiter: Pending = {
      number: this.nextNumber++,
      stripes: wanted,
      mode,
      abort: new AbortController(),
    };
    this.pending.push(waiter);
    this.lock.acquire(keys, { mode, signal: waiter.abort.signal }).then(
      (guard) => this.check(() => this.served(waiter, guard)),
      (reason: unknown) => this.check(() => this.refused(waiter, reason)),
    );
  }

  release(choice: number): void {
    if (this.held.length === 0) return;
    const [{ guard }] = this.held.splice(choice % this.held.length, 1) as [Held];
    guard.release();
    expect(guard.held).toBe(false);
    guard.release();
  }

  abort(choice: number): void {
    if (this.pending.length > 0) this.pending[choice % this.pending.length]!.abort.abort();
  }

  /** After each command: waits until all who must be granted are, and compares the lock with the model. */
  async settle(): Promise<void> {
    await turns(1);
    await until(
      () => this.failures.length > 0 || !this.pending.some((waiter) => this.must(waiter)),
      'grants come',
    );
    if (this.failures.length > 0) throw this.failures[0];
    expect(this.lock.stats().waiting).toBe(this.pending.length);
    if (this.pending.length > 0) return;
    const all = new Map<number, LockMode>();
    for (const { stripes, mode } of this.held) for (const stripe of stripes) all.set(stripe, mode);
    const expected = [...all]
      .sort(([a], [b]) => a - b)
      .map(([stripe, mode]) => ({ stripe, mode, waiters: [] }));
    const states = this.lock.inspect();
    expect(states).toMatchObject(expected);
    expect(states).toHaveLength(expected.length);
    expect(this.lock.stats().held).toBe(all.size);
  }

  /** Releases everything until all waiters have been served. */
  async finish(): Promise<void> {
    await this.settle();
    while (this.held.length > 0 || this.pending.length > 0) {
      if (this.held.length > 0) this.release(0);
      else await until(() => this.held.length > 0 || this.failures.length > 0, 'the next waiter is granted');
      await this.settle();
    }
    expect(this.lock.stats()).toMatchObject({ held: 0, waiting: 0, timeouts: 0, deadlocks: 0 });
  }

  private granted(guard: Guard, stripes: ReadonlySet<number>, mode: LockMode): void {
    expect(this.conflictsWithHeld(stripes, mode)).toBe(false);
    expect(guard).toMatchObject({ held: true, mode, abandoned: false });
    expect(guard.stripes).toEqual([...stripes].sort((a, b) => a - b));
    this.held.push({ guard, stripes, mode });
  }

  private served(waiter: Pending, guard: Guard): void {
    // An earlier waiter for the same stripe must have been served earlier.
    const sameBefore = this.pending.filter(({ number, mode, stripes }) => {
      return (
        number < waiter.number && mode === waiter.mode && stripes.size === 1 && equal(stripes, waiter.stripes)
      );
    });
    expect(sameBefore).toEqual([]);
    this.remove(waiter);
    this.granted(guard, waiter.stripes, waiter.mode);
  }

  private refused(waiter: Pending, reason: unknown): void {
    expect(waiter.abort.signal.aborted).toBe(true);
    expect(reason).toBe(waiter.abort.signal.reason);
    this.remove(waiter);
  }

  /** Whether nothing that is held and no other waiter can delay this one. */
  private must(waiter: Pending): boolean {
    if (waiter.abort.signal.aborted) return true;
    const others = this.pending.filter((other) => other !== waiter);
    return (
      !this.conflictsWithHeld(waiter.stripes, waiter.mode) &&
      !others.some((other) => overlap(other.stripes, waiter.stripes))
    );
  }

  private stripesOf(keys: readonly number[]): Set<number> {
    return new Set(keys.map((key) => this.lock.stripeOf(key)));
  }

  private conflictsWithHeld(stripes: ReadonlySet<number>, mode: LockMode): boolean {
    return this.held.some((held) => {
      return (mode === 'exclusive' || held.mode === 'exclusive') && overlap(held.stripes, stripes);
    });
  }

  private overlapsPending(stripes: ReadonlySet<number>): boolean {
    return this.pending.some((waiter) => overlap(waiter.stripes, stripes));
  }

  private remove(waiter: Pending): void {
    this.pending = this.pending.filter((other) => other !== waiter);
  }

  /** Keeps a failure in a callback of a promise for the next {@link settle}. */
  private check(fn: () => void): void {
    try {
      fn();
    } catch (error) {
      this.failures.push(error);
    }
  }
}

function overlap(a: ReadonlySet<number>, b: ReadonlySet<number>): boolean {
  return [...a].some((stripe) => b.has(stripe));
}

function equal(a: ReadonlySet<number>, b: ReadonlySet<number>): boolean {
  return a.size === b.size && [...a].every((stripe) => b.has(stripe));
}

/** One step, and the text that fast-check shows in a failure. */
class Step implements fc.AsyncCommand<NoModel, Subject> {
  constructor(
    private readonly text: string,
    private readonly perform: (subject: Subject) => void,
  ) {}

  check(): boolean {
    return true;
  }

  async run(_model: NoModel, subject: Subject): Promise<void> {
    this.perform(subject);
    await subject.settle();
  }

  toString(): string {
    return this.text;
  }
}

const anyKeys = fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 0, maxLength: 4 });
const anyMode = fc.constantFrom<LockMode>('exclusive', 'shared');
const anyChoice = fc.nat({ max: 99 });

function acquiring(method: 'tryAcquire' | 'acquireSync' | 'acquire'): fc.Arbitrary<Step> {
  return fc.tuple(anyKeys, anyMode).map(([keys, mode]) => {
    return new Step(`${method}([${keys.join()}], ${mode})`, (subject) => subject[method](keys, mode));
  });
}

function choosing(method: 'release' | 'abort'): fc.Arbitrary<Step> {
  return anyChoice.map((choice) => new Step(`${method}(${choice})`, (subject) => subject[method](choice)));
}

/** Releases are as likely as acquisitions; otherwise nothing would ever be free. */
export const anyCommand: fc.Arbitrary<fc.AsyncCommand<NoModel, Subject>>[] = [
  acquiring('tryAcquire'),
  acquiring('acquireSync'),
  acquiring('acquire'),
  acquiring('acquire'),
  choosing('release'),
  choosing('release'),
  choosing('release'),
  choosing('abort'),
];
