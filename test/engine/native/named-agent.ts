import type { Worker } from 'node:worker_threads';
import { startThread } from '../../support/threads.js';
import { until } from '../../support/waiting.js';

export type OwnEnd = 'return' | 'throw' | 'reject' | 'exit';

/** A thread that uses the named locks of a manager on command. Requests have keys, which the test chooses. */
export class NamedAgent {
  readonly worker: Worker;
  readonly threadId: number;
  /** What requests were told, like `key granted`, in order. */
  readonly told: string[] = [];
  /** When each of them came, on the clock of `performance.now()`. */
  readonly at: number[] = [];
  /** Of the exit, on the clock of `performance.now()`. */
  readonly exited: Promise<number>;
  #nextId = 0;
  readonly #calls = new Map<number | 'computing', (result: unknown) => void>();

  constructor(manager: number) {
    const worker = startThread('named-agent.mjs', { manager });
    this.worker = worker;
    this.threadId = worker.threadId;
    // A thread that throws on purpose does not fail the test.
    worker.on('error', () => undefined);
    worker.on('message', (message: { id?: number; result?: unknown; told?: string; key?: string }) => {
      if (message.told !== undefined) {
        this.told.push(`${message.key!} ${message.told}`);
        this.at.push(performance.now());
      } else {
        this.#calls.get(message.id!)!(message.result);
      }
    });
    this.exited = new Promise((resolve) =>
      worker.once('exit', () => {
        resolve(performance.now());
      }),
    );
  }

  request(key: string, name: string, { mode = 'exclusive', how = 'wait' } = {}): Promise<string> {
    return this.#call('request', key, name, mode, how) as Promise<string>;
  }

  cancel(key: string): Promise<boolean> {
    return this.#call('cancel', key) as Promise<boolean>;
  }

  async release(key: string): Promise<void> {
    await this.#call('release', key);
  }

  /** From then on its event loop is blocked. */
  compute(): Promise<unknown> {
    const computing = new Promise((resolve) => this.#calls.set('computing', resolve));
    void this.#call('compute');
    return computing;
  }

  end(how: OwnEnd | 'terminate'): Promise<number> {
    if (how === 'terminate') void this.worker.terminate();
    else void this.#call(how);
    return this.exited;
  }

  /** Until its requests have been told this. */
  async awaitTold(...told: string[]): Promise<void> {
    await until(() => this.told.length >= told.length, `it is told ${told.join(', ')}`);
  }

  #call(method: string, ...args: unknown[]): Promise<unknown> {
    const id = this.#nextId++;
    const result = new Promise((resolve) => this.#calls.set(id, resolve));
    this.worker.postMessage({ id, method, args });
    return result;
  }
}
