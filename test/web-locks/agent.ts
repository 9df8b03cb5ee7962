import type { Worker } from 'node:worker_threads';
import type { LockManager, LockManagerSnapshot, LockOptions } from 'stripelock/web-locks';
import { startThread } from '../support/threads.js';
import { until } from '../support/waiting.js';

interface Message {
  readonly key: string;
  readonly event: string;
  readonly value?: unknown;
}

/** A thread that requests web locks on command: the default manager's, or another manager's. */
export class WebLocksAgent {
  readonly worker: Worker;
  readonly clientId: string;
  readonly #messages: Message[] = [];
  #keys = 0;

  constructor(manager?: LockManager) {
    this.worker = startThread('web-locks-agent.mjs', { handle: manager?.handle });
    this.clientId = `node-${process.pid}-${this.worker.threadId}`;
    // A thread that throws on purpose does not fail the test.
    this.worker.on('error', () => undefined);
    this.worker.on('message', (message: Message) => this.#messages.push(message));
  }

  /** Makes a request under a separate key, which it returns. */
  request(name: string, options: LockOptions = {}): string {
    const key = `request ${++this.#keys}`;
    this.#post('request', key, name, options);
    return key;
  }

  /** The same, and waits until it is granted. */
  async hold(name: string, options: LockOptions = {}): Promise<string> {
    const key = this.request(name, options);
    await this.told(key, 'granted');
    return key;
  }

  /** Ends the callback of a request, which gives this value. */
  end(key: string, value?: unknown): void {
    this.#post('end', key, value);
  }

  /** Waits for what becomes of a request. */
  async told(key: string, event: string): Promise<unknown> {
    let message: Message | undefined;
    await until(() => {
      message = this.#messages.find((each) => each.key === key && each.event === event);
      return message !== undefined;
    }, `${key} is ${event}`);
    return message!.value;
  }

  hasTold(key: string, event: string): boolean {
    return this.#messages.some((each) => each.key === key && each.event === event);
  }

  async query(): Promise<LockManagerSnapshot> {
    const key = `query ${++this.#keys}`;
    this.#post('query', key);
    return (await this.told(key, 'state')) as LockManagerSnapshot;
  }

  /** From then on its event loop is blocked. */
  async compute(): Promise<void> {
    this.#post('compute', 'compute');
    await this.told('compute', 'computing');
  }

  /** Ends the thread, and waits until it has ended. */
  async leave(how: 'terminate' | 'throw' | 'exit' | 'close'): Promise<void> {
    const ended = new Promise<void>((resolve) => void this.worker.once('exit', () => resolve()));
    if (how === 'terminate') void this.worker.terminate();
    else this.#post(how);
    await ended;
  }

  #post(method: string, ...args: unknown[]): void {
    this.worker.postMessage({ method, args });
  }
}
