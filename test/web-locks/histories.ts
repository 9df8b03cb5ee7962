import { expect } from 'vitest';
import type { LockManager } from 'stripelock/web-locks';
import { seedFor } from '../support/seed.js';
import { turns } from '../support/waiting.js';
import { below, randomFrom } from '../workers/random.mjs';

type Mode = 'exclusive' | 'shared';
type State = 'pending' | 'held' | 'aborted' | 'stolen' | 'ended' | 'unavailable';

interface Request {
  readonly id: number;
  readonly name: string;
  readonly mode: Mode;
  state: State;
}

/** The algorithms of the standard, in their shortest form. */
class Model {
  readonly requests: Request[] = [];

  of(name: string, state: State): Request[] {
    return this.requests.filter((request) => request.name === name && request.state === state);
  }

  request(name: string, mode: Mode, how: 'wait' | 'ifAvailable' | 'steal'): Request {
    const request: Request = { id: this.requests.length, name, mode, state: 'pending' };
    if (how === 'steal') {
      for (const victim of this.of(name, 'held')) victim.state = 'stolen';
      request.state = 'held';
    } else if (how === 'ifAvailable' && !this.#isGrantable(request)) {
      request.state = 'unavailable';
    }
    this.requests.push(request);
    this.process(name);
    return request;
  }

  process(name: string): void {
    for (const request of this.of(name, 'pending')) {
      if (!this.#isGrantable(request)) return;
      request.state = 'held';
    }
  }

  #isGrantable({ id, name, mode }: Request): boolean {
    const first = this.of(name, 'pending')[0];
    if (first !== undefined && first.id !== id) return false;
    const held = this.of(name, 'held');
    return mode === 'exclusive' ? held.length === 0 : held.every((other) => other.mode === 'shared');
  }
}

/** One request as a program sees it. */
class Real {
  state: State = 'pending';
  readonly controller: AbortController | undefined;
  readonly #end: () => void;

  constructor(manager: LockManager, { name, mode }: Request, how: 'wait' | 'ifAvailable' | 'steal') {
    this.controller = how === 'wait' ? new AbortController() : undefined;
    const { promise, resolve } = (() => {
      let end!: () => void;
      return { promise: new Promise<void>((done) => (end = done)), resolve: () => end() };
    })();
    this.#end = resolve;
    const options = {
      mode,
      ifAvailable: how === 'ifAvailable',
      steal: how === 'steal',
      ...(this.controller && { signal: this.controller.signal }),
    };
    const ended = manager.request(name, options, (lock) => {
      this.state = lock === null ? 'unavailable' : 'held';
      return lock === null ? undefined : promise;
    });
    ended.then(
      () => (this.state = this.state === 'unavailable' ? 'unavailable' : 'ended'),
      () => (this.state = this.controller?.signal.aborted === true ? 'aborted' : 'stolen'),
    );
  }

  end(): void {
    this.#end();
  }
}

const NAMES = ['a', 'b', '\ud800'];

/** Makes random requests, and after each step compares what was granted, and `query()`, with the model. */
export async function runHistories(manager: LockManager): Promise<void> {
  const random = randomFrom(seedFor('histories of web locks'));
  const choose = <T>(list: readonly T[]): T => list[below(random, list.length)]!;
  for (let history = 0; history < 20; history++) {
    const model = new Model();
    const real: Real[] = [];
    for (let step = 0; step < 60; step++) {
      const [held, pending] = (['held', 'pending'] as const).map((state) =>
        model.requests.filter((request) => request.state === state),
      ) as [Request[], Request[]];
      const what = random();
      if (what < 0.5 || held.length === 0) {
        const how = what < 0.06 ? 'steal' : what < 0.15 ? 'ifAvailable' : 'wait';
        const mode = how === 'steal' || random() < 0.5 ? 'exclusive' : 'shared';
        const request = model.request(choose(NAMES), mode, how);
        real.push(new Real(manager, request, how));
      } else if (what < 0.65 && pending.length > 0) {
        const request = choose(pending);
        request.state = 'aborted';
        model.process(request.name);
        real[request.id]!.controller!.abort();
      } else {
        const request = choose(held);
        request.state = 'ended';
        model.process(request.name);
        real[request.id]!.end();
        // The callback ends a microtask later. All else is decided in the call.
        await turns(1);
      }
      // Several steps may come in one tick.
      if (random() < 0.3) await compare(manager, model, real, `history ${history}, step ${step}`);
      else if (random() < 0.5) await turns(1);
    }
    for (const request of model.requests) if (request.state === 'held') real[request.id]!.end();
    for (;;) {
      await turns(2);
      const left = real.filter(({ state }) => state === 'held' || state === 'pending');
      if (left.length === 0) break;
      for (const request of left) request.end();
    }
    expect(await manager.query()).toEqual({ held: [], pending: [] });
  }
}

async function compare(
  manager: LockManager,
  model: Model,
  real: readonly Real[],
  where: string,
): Promise<void> {
  await turns(3);
  const states = model.requests.map(({ state }) => state);
  expect(
    real.map(({ state }) => state),
    where,
  ).toEqual(states);
  const { held, pending } = await manager.query();
  for (const name of NAMES) {
    const modesOf = (infos: typeof held): string[] =>
      infos.filter((info) => info.name === name).map(({ mode }) => mode);
    expect(modesOf(held).toSorted(), where).toEqual(
      model
        .of(name, 'held')
        .map(({ mode }) => mode)
        .toSorted(),
    );
    expect(modesOf(pending), where).toEqual(model.of(name, 'pending').map(({ mode }) => mode));
  }
}
