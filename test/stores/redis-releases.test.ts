import { beforeEach, expect, it } from 'vitest';
import { redisLeaseStore } from 'stripelock/redis';

/** Stands in for a client of ioredis: the test answers instead of the server, in any order. */
class AnsweredClient {
  readonly sent: { args: string[]; answer: (reply: unknown) => void }[] = [];
  readonly sources: string[] = [];
  #heard!: (channel: string, message: string) => void;
  readonly options = {};

  evalsha(_sha: string, ...args: string[]): Promise<unknown> {
    return new Promise((answer) => this.sent.push({ args, answer }));
  }
  /** At first, the store sends scripts that run in the background by their source. */
  eval(source: string, ...args: string[]): Promise<unknown> {
    this.sources.push(source);
    return this.evalsha(source, ...args);
  }
  duplicate(): this {
    return this;
  }
  on(event: string, listener: (channel: string, message: string) => void): void {
    if (event === 'message') this.#heard = listener;
  }
  subscribe(): Promise<void> {
    return Promise.resolve();
  }
  disconnect(): void {
    this.sent.length = 0;
  }

  tell(lease: string): void {
    this.#heard('', lease);
  }
}

const LEASE = 'stripelock:{108}:key';
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

let client: AnsweredClient;
let store: ReturnType<typeof redisLeaseStore>;

/** A store that has just waited for the key, so that its next attempt registers it as a waiter. */
beforeEach(async () => {
  client = new AnsweredClient();
  store = redisLeaseStore({ client });
  const stop = store.onRelease('key', () => undefined);
  await turn();
  stop();
});

it('wakes a waiter on news of a release that arrives before the refusal of its attempt', async () => {
  const asked = store.tryAcquire('key', 'a', 1000);
  client.tell(LEASE);
  client.sent[0]!.answer([1000]);
  expect(await asked).toBeUndefined();
  let woken = 0;
  store.onRelease('key', () => woken++);
  await turn();
  expect(woken).toBe(1);
  expect(client.sent).toHaveLength(1);
  await store.close();
});

it('passes the notification on if no acquisition waits after the refusal', async () => {
  const asked = store.tryAcquire('key', 'a', 1000);
  client.tell(LEASE);
  client.sent[0]!.answer([1000]);
  await asked;
  await turn();
  const [attempt, passed] = client.sent.map(({ args }) => args);
  const channel = attempt!.at(-1);
  expect(channel).toMatch(/^stripelock:waiter:/);
  expect(passed!.slice(1)).toEqual([LEASE, 'stripelock:{108}?key', channel]);
  await store.close();
});

it('sends the source of the script that passes notifications on only until the server has replied', async () => {
  for (let round = 1; round <= 3; round++) {
    store.onRelease('key', () => undefined)();
    const asked = store.tryAcquire('key', 'a', 1000);
    client.tell(LEASE);
    client.sent.at(-1)!.answer([1000]);
    await asked;
    await turn();
    expect(client.sent).toHaveLength(2 * round);
    client.sent.at(-1)!.answer(1);
    await turn();
  }
  expect(client.sources).toHaveLength(1);
  await store.close();
});

it('gives back a grant that comes after its attempt has failed, by its token', async () => {
  client = new AnsweredClient();
  const hasty = redisLeaseStore({ client, timeout: 20 });
  await expect(hasty.tryAcquire('key', 'a', 60_000)).rejects.toThrow(/has not answered/);
  client.sent[0]!.answer('1700000000000000000');
  await turn();
  expect(client.sent).toHaveLength(2);
  expect(client.sent[1]!.args.slice(3)).toEqual(['stripelock:{108}!key', 'a', '1700000000000000000', '0']);
  await hasty.close();
});
