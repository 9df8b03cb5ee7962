// Several threads of a process: one manager, strict order, "Termination of Locks", and steal. Native only.
import { describe, expect, it } from 'vitest';
import { LockManager, locks } from 'stripelock/web-locks';
import { expectPrompt } from '../support/prompt.js';
import { rejectionOf, until, watch } from '../support/waiting.js';
import { WebLocksAgent } from './agent.js';
import { hold, stateOf } from './managers.js';

const FREE = { held: [], pending: [] };
let names = 0;
/** The manager of all threads has the names of all tests of a file. */
const newName = (): string => `threads.test.ts ${++names}`;

describe('locks', () => {
  it('excludes other threads, and lets the next one in after a release', async () => {
    const name = newName();
    const agent = new WebLocksAgent();
    const key = await agent.hold(name);
    const ours = watch(locks.request(name, () => 'ours'));
    expect(await locks.request(name, { ifAvailable: true }, (lock) => lock)).toBe(null);
    expect(ours.state).toBe('pending');
    agent.end(key, 'theirs');
    expect(await agent.told(key, 'ended')).toBe('theirs');
    expect(await ours.promise).toBe('ours');
  });

  it('serves the requests of all threads in their order', async () => {
    const name = newName();
    const agents = [new WebLocksAgent(), new WebLocksAgent()];
    const held = await hold(locks, name);
    const order: string[] = [];
    const all: Promise<unknown>[] = [];
    const lengths = async (): Promise<number> => (await stateOf(locks, name)).pending.length;
    for (let round = 0; round < 3; round++) {
      for (const [i, agent] of agents.entries()) {
        const before = await lengths();
        const key = agent.request(name);
        let now = before;
        while (now === before) now = await lengths();
        const served = agent.told(key, 'granted').then(() => {
          order.push(`agent ${i}`);
          agent.end(key);
        });
        all.push(served);
      }
      all.push(locks.request(name, () => order.push('ours')));
    }
    held.release();
    await Promise.all(all);
    expect(order).toEqual(Array.from({ length: 3 }, () => ['agent 0', 'agent 1', 'ours']).flat());
  });

  it('lets shared requests of several threads in together', async () => {
    const name = newName();
    const agent = new WebLocksAgent();
    const theirs = await agent.hold(name, { mode: 'shared' });
    const ours = await hold(locks, name, { mode: 'shared' });
    expect(await stateOf(locks, name)).toEqual({ held: ['shared', 'shared'], pending: [] });
    agent.end(theirs);
    ours.release();
  });

  it.each(['\ud800', '\udc00\ud800', 'a\0b', '', 'ü'.repeat(1000)])(
    'knows the name %j in every thread',
    async (name) => {
      const agent = new WebLocksAgent();
      const key = await agent.hold(name);
      expect((await stateOf(locks, name)).held).toEqual(['exclusive']);
      const inUtf8 = Buffer.from(name).toString();
      const available = await locks.request(inUtf8, { ifAvailable: true }, (lock) => lock !== null);
      expect(available).toBe(inUtf8 !== name);
      expect(await locks.request(name, { ifAvailable: true }, (lock) => lock)).toBe(null);
      agent.end(key);
      await agent.told(key, 'ended');
    },
  );

  it('shows the requests of all threads to each of them', async () => {
    const name = newName();
    const agent = new WebLocksAgent();
    const key = await agent.hold(name);
    const ours = hold(locks, name, { mode: 'shared' });
    const expected = {
      held: [{ name, mode: 'exclusive', clientId: agent.clientId }],
      pending: [{ name, mode: 'shared', clientId: `node-${process.pid}-0` }],
    };
    for (const { held, pending } of [await locks.query(), await agent.query()]) {
      const ofName = (infos: typeof held): typeof held => infos.filter((info) => info.name === name);
      expect({ held: ofName(held), pending: ofName(pending) }).toEqual(expected);
    }
    agent.end(key);
    (await ours).release();
  });
});

describe('a separate manager', () => {
  it('is shared by the threads that have its handle, and by no others', async () => {
    const manager = new LockManager({ name: 'own' });
    const [inside, outside] = [new WebLocksAgent(manager), new WebLocksAgent()];
    const key = await inside.hold('a');
    const other = await outside.hold('a');
    expect(await manager.request('a', { ifAvailable: true }, (lock) => lock)).toBe(null);
    const state = await manager.query();
    expect(state.held).toEqual([{ name: 'a', mode: 'exclusive', clientId: inside.clientId }]);
    inside.end(key);
    outside.end(other);
    expect(await manager.request('a', () => 'ours')).toBe('ours');
  });
});

describe('the end of a thread', () => {
  for (const way of ['terminate', 'throw', 'exit'] as const) {
    it(`by ${way} frees what it held, and drops what it asked for`, async () => {
      const name = newName();
      const agent = new WebLocksAgent();
      await agent.hold(name);
      await agent.hold(`${name} other`);
      const asked = agent.request(name, { mode: 'shared' });
      const [ours, behind] = [hold(locks, name), hold(locks, name, { mode: 'shared' })];
      await agent.query();
      expect(agent.hasTold(asked, 'granted')).toBe(false);
      await agent.leave(way);
      (await ours).release();
      (await behind).release();
      expect(await locks.request(`${name} other`, { ifAvailable: true }, (lock) => lock !== null)).toBe(true);
    });
  }

  it('wakes the next one soon, also if the thread was computing', async () => {
    const times: number[] = [];
    for (let round = 0; round < 10; round++) {
      const name = newName();
      const agent = new WebLocksAgent();
      await agent.hold(name);
      const ours = hold(locks, name);
      if (round % 2 === 0) await agent.compute();
      const start = performance.now();
      void agent.worker.terminate();
      (await ours).release();
      times.push(performance.now() - start);
    }
    // The limit is 100 ms; it includes the end of the thread itself.
    expectPrompt('from terminate() to the next callback', times, 100);
  });

  it('lets a shared request in that waited behind an exclusive one of the thread', async () => {
    const name = newName();
    const agent = new WebLocksAgent();
    const reader = await hold(locks, name, { mode: 'shared' });
    agent.request(name);
    await agent.query();
    const behind = watch(hold(locks, name, { mode: 'shared' }));
    await until(() => behind.state === 'pending', 'it waits');
    await agent.leave('terminate');
    (await behind.promise).release();
    reader.release();
  });

  it('does not come while one of its requests waits', async () => {
    const name = newName();
    const agent = new WebLocksAgent();
    const held = await hold(locks, name);
    const key = agent.request(name, { timeout: 60_000 });
    const exited = watch(agent.leave('close'));
    const free = new WebLocksAgent();
    await free.leave('close');
    expect(exited.state).toBe('pending');
    held.release();
    // It is granted; its callback never ends, and does not keep the thread alive.
    await exited.promise;
    expect(key).toBe('request 1');
    expect(await stateOf(locks, name)).toEqual(FREE);
  });
});

describe('steal', () => {
  it('from another thread rejects the victim with an AbortError, and its late end affects no other holder', async () => {
    const name = newName();
    const agent = new WebLocksAgent();
    const victim = await agent.hold(name);
    const thief = await hold<string>(locks, name, { steal: true });
    expect(await agent.told(victim, 'rejected')).toBe('AbortError');
    const next = hold(locks, name);
    agent.end(victim, 'late');
    await agent.query();
    expect(await stateOf(locks, name)).toEqual({ held: ['exclusive'], pending: ['exclusive'] });
    thief.release('kept');
    expect(await thief.ended).toBe('kept');
    (await next).release();
  });

  it('by another thread rejects our promise, at once if our event loop is idle', async () => {
    const name = newName();
    const victim = await hold(locks, name);
    const agent = new WebLocksAgent();
    const thief = await agent.hold(name, { steal: true });
    expect(await rejectionOf(victim.ended)).toMatchObject({ name: 'AbortError' });
    victim.release();
    agent.end(thief, 'done');
    expect(await agent.told(thief, 'ended')).toBe('done');
    expect(await stateOf(locks, name)).toEqual(FREE);
  });

  it('by another thread as our callback ends rejects our promise, or comes after it', async () => {
    const agent = new WebLocksAgent();
    let rejected = 0;
    for (let round = 0; round < 100; round++) {
      const name = newName();
      const victim = await hold<string>(locks, name);
      const key = agent.request(name, { steal: true });
      if (round % 2 === 0) {
        // Microtasks alone: the event loop does not report the theft before the callback ends.
        const holder = async (): Promise<string | undefined> =>
          (await locks.query()).held.find((info) => info.name === name)?.clientId;
        while ((await holder()) !== agent.clientId);
      }
      victim.release('ended');
      const outcome = await victim.ended.catch((error: unknown) => (error as Error).name);
      if (outcome === 'AbortError') rejected++;
      else expect(outcome).toBe('ended');
      await agent.told(key, 'granted');
      agent.end(key);
      await agent.told(key, 'ended');
    }
    expect(rejected).toBeGreaterThanOrEqual(50);
  });
});
