import { queueMicrotask } from '../../common/host.js';
import { ignore, type Hearing } from './connection.js';

/** The part of the package `postgres` that listens. */
export interface Listens {
  listen(
    channel: string,
    heard: (payload: string) => void,
    ready: () => void,
  ): Promise<{ unlisten(): Promise<unknown> }>;
}

interface Hearer {
  readonly heard: (payload: string) => void;
  readonly ready: () => void;
}

/**
 * A channel of one client, for all stores that hear it. The library listens again by itself after its session was lost, also
 * where it could not begin, and has no other way to end that than `unlisten`, which works only before the first such loss.
 * Each further call of `listen` would then stay for ever, so there is no other one: what cannot be ended is used again.
 *
 * If the server refuses the LISTEN but keeps the session, the library begins again only when it loses that. So it is, too,
 * where it takes the failure of the session before for that of the LISTEN, as 3.4.9 may. Waiters poll meanwhile.
 */
class Channel {
  readonly #client: Listens;
  readonly #name: string;
  readonly #hearers = new Set<Hearer>();
  /** Whether the library listens, or tries to, or is ending that. */
  #registered = false;
  /** Whether it has begun to hear, and was not told to end that. */
  #hears = false;
  #unlisten: (() => Promise<unknown>) | undefined;

  constructor(client: Listens, name: string) {
    this.#client = client;
    this.#name = name;
  }

  add(hearer: Hearer): Hearing {
    this.#hearers.add(hearer);
    if (this.#hears) queueMicrotask(() => this.#hearers.has(hearer) && hearer.ready());
    this.#register();
    return {
      close: () => {
        this.#hearers.delete(hearer);
        this.#leave();
      },
    };
  }

  #register(): void {
    if (this.#registered || this.#hearers.size === 0) return;
    this.#registered = true;
    const heard = (payload: string): void => {
      for (const hearer of [...this.#hearers]) hearer.heard(payload);
    };
    this.#client
      .listen(this.#name, heard, () => this.#begins())
      .then((listening) => {
        this.#unlisten = () => listening.unlisten();
        this.#leave();
      }, ignore);
  }

  #begins(): void {
    this.#hears = true;
    for (const hearer of [...this.#hearers]) hearer.ready();
  }

  #leave(): void {
    const unlisten = this.#unlisten;
    if (unlisten === undefined || this.#hearers.size > 0) return;
    this.#unlisten = undefined;
    this.#hears = false;
    unlisten().then(
      (answer) => {
        // Without asking the server: the session was lost meanwhile, and the library goes on.
        if (answer === undefined) this.#begins();
        else this.#left();
      },
      () => this.#left(),
    );
  }

  #left(): void {
    this.#registered = false;
    this.#register();
  }
}

const channels = new WeakMap<Listens, Map<string, Channel>>();

/** Hears on a channel of the client. `ready`: see `Connection`. */
export function hearOnChannel(client: Listens, name: string, hearer: Hearer): Hearing {
  let ofClient = channels.get(client);
  if (ofClient === undefined) channels.set(client, (ofClient = new Map<string, Channel>()));
  let channel = ofClient.get(name);
  if (channel === undefined) ofClient.set(name, (channel = new Channel(client, name)));
  return channel.add(hearer);
}
