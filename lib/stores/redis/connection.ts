import type { ReleaseListener } from '../wakers.js';
import type { Script } from './scripts.js';

/**
 * Subscribes to a channel on a second connection and reconnects while the server is unreachable. The returned
 * function unsubscribes, stops reconnecting, and does not throw.
 */
export type Listen = (channel: string, listener: ReleaseListener) => () => void;

export interface Disconnects {
  count: number;
}

/**
 * A function that runs SCAN on one server. It returns the next cursor, which is '0' at the end, and the names
 * of some keys that match the pattern.
 */
export type Scan = (cursor: string, pattern: string) => Promise<readonly [cursor: string, names: string[]]>;

/** The approximate number of keys that the server examines for one SCAN. */
export const SCANNED = 1000;

/** Parses a reply of SCAN. The client may have converted texts to other types. */
export function scannedIn(reply: unknown): readonly [cursor: string, names: string[]] {
  const [cursor, names] = reply as [unknown, unknown[]];
  return [String(cursor), names.map(String)];
}

/** The client operations that the store uses, independent of the library. */
export interface RedisConnection {
  /** Runs a script by its hash, or by its source if `bySource`. */
  run(script: Script, keys: readonly string[], args: readonly string[], bySource: boolean): Promise<unknown>;
  readonly isCluster: boolean;
  /** The prefix that the client adds to names of keys, but not to patterns. */
  readonly keyPrefix?: string;
  /** Returns one scan for each server that has keys, or undefined if the client cannot enumerate keys. */
  scans?(): Promise<readonly Scan[] | undefined>;
  /** Counts lost connections, for a client that resends unanswered commands after reconnecting. */
  readonly disconnects?: Disconnects;
  /** Undefined if the client cannot open a second connection. */
  readonly listen?: Listen;
}

interface Emitter {
  on(event: string, listener: () => void): unknown;
}

/**
 * The counters, one for each client. A second store on the same client uses the existing counter, instead of
 * adding more listeners.
 */
const disconnectsOf = new WeakMap<Emitter, Disconnects>();

/** Counts the events that a client emits when it loses a connection. */
export function countDisconnects(client: Emitter, events: readonly string[]): Disconnects {
  let disconnects = disconnectsOf.get(client);
  if (disconnects === undefined) {
    const counted = { count: 0 };
    disconnectsOf.set(client, (disconnects = counted));
    for (const event of events) client.on(event, () => counted.count++);
  }
  return disconnects;
}

export const ignore = (): void => undefined;
