import type { ListingBackend, StoredKey } from '../../lib/stores/listing.js';
import type {
  Attempt,
  Granted,
  GrantedShared,
  Keeping,
  StoredLease,
  Refused,
  Release,
  Releasing,
  Renewing,
  Wanted,
  WantedShared,
} from '../../lib/stores/server-store.js';
import type { ReleaseFeed } from '../../lib/stores/wakers.js';
import { compareKeys } from '../../unbundled/common/key-order.js';
import { groupName } from '../../unbundled/lease/contract/shared.js';
import { encodeText, isInRange, type TextRange } from '../../unbundled/stores/exact-text.js';
import { listByPages, pageOf } from '../../unbundled/stores/listing.js';

const PREFIX = 'lease:';
/** Leases in a page, so few that tests need several. */
const PAGE = 2;

interface Row {
  owner: string;
  token: bigint;
  expires: number;
  info: string;
  /** Whether the last holder left the key without a release; undefined once the holder has ended the lease. */
  abandoned: boolean | undefined;
  /** Exists if a group holds the key, or was the last to hold it. */
  group?: { readonly readers: Set<string>; putOffUntil: number };
}

/** A server that keeps leases in this process, and notifies all listeners of each release. */
export class MapServer {
  readonly rows = new Map<string, Row>();
  readonly listeners = new Set<(name: string) => void>();
  readonly now: () => number;
  token = 0n;

  constructor(now: () => number) {
    this.now = now;
  }

  held(name: string): Row | undefined {
    const row = this.rows.get(name);
    return row !== undefined && row.expires > this.now() ? row : undefined;
  }

  wasAbandoned(name: string): boolean {
    const row = this.rows.get(name);
    if (row?.abandoned === undefined) return false;
    return row.abandoned || (row.group === undefined && this.held(name) === undefined);
  }

  free(name: string, owner: string, token?: bigint, wasUsed?: boolean): boolean {
    const row = this.held(name);
    if (row?.owner !== owner || (token !== undefined && row.token !== token)) return false;
    const stays =
      wasUsed !== undefined &&
      row.abandoned !== undefined &&
      (row.abandoned || (wasUsed && row.group === undefined));
    if (stays) row.expires = this.now();
    else this.rows.delete(name);
    for (const heard of this.listeners) heard(name);
    return true;
  }

  /** Removes a reader from the group that holds the key. The row of a group without readers has expired. */
  leave(name: string, reader: string): Release {
    const row = this.held(name);
    if (row?.group?.readers.delete(reader) !== true) return 'not held';
    if (row.group.readers.size > 0) return 'unnotified';
    row.expires = this.now();
    for (const heard of this.listeners) heard(name);
    return 'freed';
  }
}

/** All that a store over that server needs besides what all stores over servers have in common. */
export class MapBackend implements ListingBackend {
  readonly title = 'the map';
  readonly releaseFeed: ReleaseFeed;
  readonly #server: MapServer;

  constructor(server: MapServer) {
    this.#server = server;
    this.releaseFeed = {
      retryAfter: 100,
      open: ({ released, subscribed }) => {
        server.listeners.add(released);
        queueMicrotask(subscribed);
        return () => server.listeners.delete(released);
      },
    };
  }

  nameOf(key: string): string {
    return PREFIX + encodeText(key);
  }

  async acquire({ names, owner, length, info = '' }: Wanted, { known }: Attempt): Promise<Granted | Refused> {
    await turn();
    const server = this.#server;
    const place = names.findIndex((name) => (server.held(name)?.owner ?? owner) !== owner);
    if (place >= 0) {
      return { place, wakeIn: server.held(names[place]!)!.expires - server.now(), isRegistered: true };
    }
    const abandoned = names.map((name) => server.wasAbandoned(name));
    const tokens = names.map((name, i) => {
      const token =
        known.reduce((highest, one) => (one > highest ? one : highest), server.token) + BigInt(i) + 1n;
      const expires = Math.max(server.held(name)?.expires ?? 0, server.now() + length);
      server.rows.set(name, { owner, token, expires, info, abandoned: abandoned[i] });
      return token;
    });
    server.token = tokens.at(-1)!;
    return { tokens, abandoned, giveBack: (i) => void server.free(names[i]!, owner, tokens[i], false) };
  }

  async renew(keys: readonly Renewing[]): Promise<boolean[]> {
    await turn();
    return keys.map(({ name, owner, length, info }) => {
      const row = this.#server.held(name);
      if (row?.owner !== owner) return false;
      row.expires = Math.max(row.expires, this.#server.now() + length);
      row.info = info ?? row.info;
      return true;
    });
  }

  async keep({ name, owner, length, token, keptOwner }: Keeping): Promise<boolean> {
    await turn();
    const row = this.#server.held(name);
    if (row?.token !== token) return false;
    if (row.owner !== owner) return row.owner === keptOwner;
    row.owner = keptOwner;
    row.expires = this.#server.now() + length;
    row.abandoned = undefined;
    return true;
  }

  async takeBack({ name, owner, token }: Releasing, wasUsed: boolean): Promise<Release> {
    await turn();
    return this.#server.free(name, owner, token, wasUsed) ? 'freed' : 'not held';
  }

  async release(keys: readonly Releasing[]): Promise<Release[]> {
    await turn();
    return keys.map(({ name, owner, token }) =>
      this.#server.free(name, owner, token) ? 'freed' : 'not held',
    );
  }

  async acquireShared(
    { name, reader, length }: WantedShared,
    { known }: Attempt,
  ): Promise<GrantedShared | Refused> {
    await turn();
    const server = this.#server;
    const now = server.now();
    const held = server.held(name);
    const group = held?.group;
    const isIn = group?.readers.has(reader) === true;
    const putOffUntil = server.rows.get(name)?.group?.putOffUntil ?? now;
    if (putOffUntil > now && !isIn) return { place: 0, wakeIn: putOffUntil - now, isRegistered: true };
    if (held !== undefined && group === undefined) {
      return { place: 0, wakeIn: held.expires - now, isRegistered: true };
    }
    const abandoned = server.wasAbandoned(name);
    if (held === undefined) {
      server.token = known.reduce((highest, one) => (one > highest ? one : highest), server.token) + 1n;
      server.rows.set(name, {
        owner: groupName(reader, server.token),
        token: server.token,
        expires: now + length,
        info: '',
        abandoned,
        group: { readers: new Set([reader]), putOffUntil: now },
      });
    } else {
      held.expires = Math.max(held.expires, now + length);
      group!.readers.add(reader);
    }
    const { token, owner } = server.held(name)!;
    return { token, group: owner, abandoned };
  }

  async releaseShared(name: string, reader: string): Promise<Release> {
    await turn();
    return this.#server.leave(name, reader);
  }

  async putOffReaders(name: string, milliseconds: number): Promise<boolean> {
    await turn();
    const group = this.#server.held(name)?.group;
    if (group === undefined) return false;
    group.putOffUntil = Math.max(group.putOffUntil, this.#server.now() + milliseconds);
    return true;
  }

  async inspect(name: string): Promise<StoredLease | undefined> {
    await turn();
    const row = this.#server.held(name);
    return row && { ...row, remaining: row.expires - this.#server.now() };
  }

  list(
    ranges: readonly TextRange[],
    most: number,
    ask: <T>(request: () => Promise<T>) => Promise<T>,
  ): Promise<readonly StoredKey[]> {
    return listByPages(ranges, most, async (range, asked) => {
      const inPage = Math.min(asked, PAGE);
      const leases = await ask(async () => {
        await turn();
        return [...this.#server.rows.keys()]
          .map((name) => name.slice(PREFIX.length))
          .filter(
            (text) =>
              isInRange(text, range) &&
              compareKeys(text, range.after) > 0 &&
              this.#server.held(PREFIX + text),
          )
          .sort(compareKeys)
          .slice(0, inPage);
      });
      const rows = leases.map((text) => ({ text, ...this.#server.held(PREFIX + text)! }));
      return pageOf(
        rows.map((row) => ({ ...row, remaining: row.expires - this.#server.now() })),
        inPage,
      );
    });
  }
}

/** The way to the server. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
