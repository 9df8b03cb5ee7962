import { MemoryLeaseStore, type Clock, type ExactLeaseStore, type LeaseState } from 'stripelock';

type Operation = 'tryAcquire' | 'renew' | 'keep' | 'release';
type Hooks = Partial<Record<Operation, (() => Promise<void> | void) | undefined>>;

/** A store like one at the other end of a network: it can be slow, fail or hang, and records what it was asked. */
export class FaultyStore implements ExactLeaseStore {
  readonly inner: MemoryLeaseStore;
  /** What was asked, in order. */
  readonly asked: string[] = [];
  /** Runs with the next operations of that name, until it is changed. */
  readonly before: Hooks = {};
  readonly after: Hooks = {};

  constructor(clock?: Clock) {
    this.inner = new MemoryLeaseStore(clock && { clock });
  }

  tryAcquire(key: string, owner: string, ttl: number): Promise<bigint | undefined> {
    return this.#run('tryAcquire', () => this.inner.tryAcquire(key, owner, ttl));
  }

  renew(key: string, owner: string, ttl: number): Promise<boolean> {
    return this.#run('renew', () => this.inner.renew(key, owner, ttl));
  }

  keep(key: string, owner: string, ttl: number, token: bigint): Promise<boolean> {
    return this.#run('keep', () => this.inner.keep(key, owner, ttl, token));
  }

  release(key: string, owner: string, token?: bigint): Promise<boolean> {
    return this.#run('release', () => this.inner.release(key, owner, token));
  }

  inspect(key: string): Promise<LeaseState | undefined> {
    return this.inner.inspect(key);
  }

  /** Stops the next operation of that name on its way to the store. Later ones overtake it. */
  delayNext(name: Operation): { open(): void } {
    return delayOnce(this.before, name);
  }

  /** Stops the next answer to an operation of that name. */
  delayAnswer(name: Operation): { open(): void } {
    return delayOnce(this.after, name);
  }

  count(operation: string): number {
    return this.asked.filter((asked) => asked === operation).length;
  }

  async #run<T>(name: Operation, operation: () => Promise<T>): Promise<T> {
    this.asked.push(name);
    await this.before[name]?.();
    const result = await operation();
    await this.after[name]?.();
    return result;
  }
}

/** For the hooks of a {@link FaultyStore}: waits until it is opened. */
export function gate(): { readonly pass: () => Promise<void>; open(): void } {
  let open!: () => void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { pass: () => opened, open };
}

function delayOnce(hooks: Hooks, name: Operation): { open(): void } {
  const delayed = gate();
  hooks[name] = () => {
    hooks[name] = undefined;
    return delayed.pass();
  };
  return delayed;
}

export function failing(): never {
  throw new Error('the network is down');
}
