import type {
  AcquireOptions,
  LockKey,
  LockMode,
  StripedLock,
  StripedLockStats,
  StripeState,
} from 'stripelock';
import type { Worker } from 'node:worker_threads';
import { onTestFinished } from 'vitest';
import { startThread } from './threads.js';
import { until } from './waiting.js';

/** An error that another thread sent. */
export interface RemoteError extends Error {
  readonly code?: string;
  readonly threads?: readonly number[];
  readonly stripe?: number;
  readonly stripes?: readonly number[];
  readonly holders?: readonly number[];
}

interface Reply {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: Record<string, unknown>;
}

/** A guard that an {@link Agent} holds. */
export class RemoteGuard {
  constructor(
    private readonly agent: Agent,
    readonly number: number,
    readonly stripes: readonly number[],
    readonly mode: LockMode,
    readonly abandoned: boolean,
  ) {}

  async release(): Promise<void> {
    await this.agent.call('release', this.number);
  }

  async token(): Promise<bigint> {
    return (await this.agent.call('token', this.number)) as bigint;
  }

  async held(): Promise<boolean> {
    return (await this.agent.call('held', this.number)) as boolean;
  }
}

/** A thread that uses a lock on command, one call after the other. */
export class Agent {
  private nextId = 0;
  private readonly calls = new Map<
    number,
    { resolve: (result: unknown) => void; reject: (error: Error) => void }
  >();

  private constructor(
    readonly worker: Worker,
    readonly threadId: number,
  ) {
    worker.on('message', (reply: Reply) => this.settle(reply));
    worker.on('error', (error) => this.fail(error));
    worker.on('exit', () => this.fail(new Error('the agent ended')));
  }

  /** Resolves when its thread has opened the lock. */
  static async start(lock: StripedLock): Promise<Agent> {
    const worker = startThread('agent.mjs', { handle: lock.handle });
    const agent = new Agent(worker, worker.threadId);
    await agent.call('ready');
    return agent;
  }

  acquireSync(keys: LockKey | readonly LockKey[], options?: AcquireOptions): Promise<RemoteGuard> {
    return this.acquireBy('acquireSync', keys, options) as Promise<RemoteGuard>;
  }

  acquire(keys: LockKey | readonly LockKey[], options?: AcquireOptions): Promise<RemoteGuard> {
    return this.acquireBy('acquire', keys, options) as Promise<RemoteGuard>;
  }

  tryAcquire(
    keys: LockKey | readonly LockKey[],
    options?: { mode?: LockMode },
  ): Promise<RemoteGuard | undefined> {
    return this.acquireBy('tryAcquire', keys, options);
  }

  async stats(): Promise<StripedLockStats> {
    return (await this.call('stats')) as StripedLockStats;
  }

  async inspect(): Promise<StripeState[]> {
    return (await this.call('inspect')) as StripeState[];
  }

  /** Acquires and releases each. */
  async useEach(keys: readonly LockKey[]): Promise<void> {
    await this.call('useEach', keys);
  }

  async stripeOf(key: LockKey): Promise<number> {
    return (await this.call('stripeOf', key)) as number;
  }

  /**
   * Asks the agent, without waiting for the answer, to block for that many milliseconds and then release a guard. Its
   * thread does nothing else meanwhile, so only this release can wake a waiter.
   */
  releaseAfter(guard: RemoteGuard, milliseconds: number): Promise<unknown> {
    return this.call('releaseAfter', guard.number, milliseconds);
  }

  /** Keeps the agent's thread busy until the returned function is called or the test ends. */
  async compute(): Promise<() => void> {
    const flag = new Int32Array(new SharedArrayBuffer(4));
    const stop = (): void => void Atomics.store(flag, 0, 2);
    onTestFinished(stop);
    void this.call('compute', flag);
    await until(() => Atomics.load(flag, 0) === 1, 'the agent computes');
    return stop;
  }

  call(method: string, ...args: unknown[]): Promise<unknown> {
    const id = this.nextId++;
    const reply = new Promise((resolve, reject) => {
      this.calls.set(id, { resolve, reject });
      this.worker.postMessage({ id, method, args });
    });
    // A test that fails before it waits for its agents should show its own failure only.
    reply.catch(() => undefined);
    return reply;
  }

  private acquireBy(
    method: string,
    keys: LockKey | readonly LockKey[],
    options: AcquireOptions | undefined,
  ): Promise<RemoteGuard | undefined> {
    const guard = this.call(method, keys, options).then((result) => {
      const got = result as
        { number: number; stripes: number[]; mode: LockMode; abandoned: boolean } | undefined;
      return got && new RemoteGuard(this, got.number, got.stripes, got.mode, got.abandoned);
    });
    guard.catch(() => undefined);
    return guard;
  }

  private settle(reply: Reply): void {
    const call = this.calls.get(reply.id);
    this.calls.delete(reply.id);
    if (reply.error) call?.reject(Object.assign(new Error(String(reply.error['message'])), reply.error));
    else call?.resolve(reply.result);
  }

  private fail(error: Error): void {
    for (const call of this.calls.values()) call.reject(error);
    this.calls.clear();
  }
}
