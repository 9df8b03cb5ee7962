import { createHash } from 'node:crypto';
import { performance } from '../../common/host.js';
import { LONGEST_DELAY } from '../../common/alarm.js';
import { checkTimeout } from '../../common/checks.js';
import { checkInfo } from '../../lease/contract/info.js';
import { grantInTime } from '../../lease/contract/late-grant.js';
import {
  checkKey,
  checkOwner,
  checkTtl,
  type FencingToken,
  type InfoLeaseState,
  type InfoLeaseStore,
  type LeaseStoreSource,
  type ReopenableLeaseStore,
  type WakingLeaseStore,
} from '../../lease/contract/lease-store.js';
import { checkKeyList, type SeveralKeysLeaseStore } from '../../lease/contract/several-keys.js';
import { checkDrift, withDrift, withoutDrift } from '../drift.js';
import { decodeText, encodeText } from '../exact-text.js';
import { HighestTokens } from '../highest-tokens.js';
import type { Connection, Row } from './connection.js';
import { LateGrants } from './late-grants.js';
import { checkTable, connectTo, sourceFrom, type PostgresLeaseStoreOptions } from './options.js';
import { Releases } from './releases.js';
import { Requests } from './requests.js';
import { statementsForSeveral, type StatementsForSeveral } from './statements-for-several.js';
import { statementsOf, tableOf, type Statements } from './statements.js';

/** Milliseconds. */
const DEFAULT_TIMEOUT = 1000;
/** Bytes: an entry of an index has at most 2704. */
const LONGEST_KEY = 1024;
/** Put before the hash of a longer key. No other encoded key begins like that; see `encodeText`. */
const HASHED = '\u{10ffff}sha256:';
/** How many grants of a store come between two purges. */
const PURGE_AFTER = 1000;

/**
 * Leases in PostgreSQL, for the processes of many machines. Each operation is one statement, and a transaction by itself;
 * the server judges expiry. An operation rejects with LeaseStoreError if the server fails, or does not answer within
 * `timeout`, with a LockError (ERR_LEASE_IN_TRANSACTION) inside a transaction of the caller. A grant that is answered later
 * is given back.
 *
 * A release wakes acquisitions that wait in managers: while anybody waits, a session listens, of which a pool makes one
 * more connection. `close` ends that session, and nothing else.
 *
 * Throws a TypeError (ERR_INVALID_ARG_TYPE) or RangeError (ERR_OUT_OF_RANGE) for bad options.
 */
export function postgresLeaseStore(
  options: PostgresLeaseStoreOptions,
): WakingLeaseStore & SeveralKeysLeaseStore & InfoLeaseStore & ReopenableLeaseStore {
  return new Store(options);
}

/** What is asked for a lease, checked, and as the server gets it. */
interface Wanted {
  readonly owner: string;
  readonly length: number;
  readonly info: string | null;
  /** The time to live that the caller counts on. */
  readonly ttl: number;
}

class Store implements WakingLeaseStore, SeveralKeysLeaseStore, InfoLeaseStore, ReopenableLeaseStore {
  readonly source: LeaseStoreSource | undefined;
  readonly #connection: Connection;
  readonly #statements: Statements & StatementsForSeveral;
  readonly #requests: Requests;
  readonly #releases: Releases;
  readonly #drift: number;
  /** How long a statement may wait for locks. */
  readonly #limit: string;
  /** By name, of what this client was given: the server may have lost it. */
  readonly #highest = new HighestTokens();
  readonly #late = new LateGrants((...of) => this.#giveBack(...of));
  #granted = 0;

  constructor(options: PostgresLeaseStoreOptions) {
    this.#connection = connectTo(options);
    const { timeout: given, drift } = options;
    const table = tableOf(checkTable(options.table));
    const timeout = given === undefined ? DEFAULT_TIMEOUT : checkTimeout(given, 'options.timeout');
    this.#drift = checkDrift(drift);
    this.source = sourceFrom(options);
    // For the server 0 is no limit.
    this.#limit = `${Math.min(Math.max(1, Math.ceil(timeout)), LONGEST_DELAY)}ms`;
    this.#statements = { ...statementsOf(table), ...statementsForSeveral(table) };
    this.#requests = new Requests(this.#connection, timeout, this.#statements.schema(this.#limit));
    this.#releases = new Releases(this.#connection, table.channel);
  }

  async tryAcquire(
    key: string,
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<FencingToken | undefined> {
    const name = nameOf(checkKey(key));
    const wanted = this.#wanted(owner, ttl, info);
    const notGranted = this.#late.begin([name], wanted.owner);
    let token: FencingToken | undefined;
    try {
      const at = performance.now();
      const row = await this.#acquire(name, wanted);
      if (typeof row?.['token'] !== 'string') {
        if (row) this.#refused(name, row);
        return undefined;
      }
      const found = BigInt(row['token']);
      this.#granting([name], [found]);
      const giveBack = (): void => this.#giveBack(name, wanted.owner, String(found));
      token = await grantInTime(found, { store: 'PostgreSQL', at, ttl }, performance.now(), giveBack);
      return token;
    } finally {
      if (token === undefined) notGranted();
    }
  }

  async tryAcquireAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly FencingToken[] | number> {
    const names = checkKeyList(keys).map(nameOf);
    const wanted = this.#wanted(owner, ttl, info);
    const notGranted = this.#late.begin(names, wanted.owner);
    let tokens: readonly FencingToken[] | undefined;
    try {
      const at = performance.now();
      const rows = await this.#acquireAll(names, wanted);
      const found = tokensOf(rows)?.map(BigInt);
      if (found === undefined) {
        const held = rows.find(({ remaining }) => remaining !== null)!;
        const place = Number(held['place']) - 1;
        this.#refused(names[place]!, held);
        return place;
      }
      this.#granting(names, found);
      tokens = await grantInTime(found, { store: 'PostgreSQL', at, ttl }, performance.now(), () =>
        names.forEach((name, i) => this.#giveBack(name, wanted.owner, String(found[i]))),
      );
      return tokens;
    } finally {
      if (tokens === undefined) notGranted();
    }
  }

  async renew(key: string, owner: string, ttl: number, info?: string): Promise<boolean> {
    const name = nameOf(checkKey(key));
    const wanted = this.#wanted(owner, ttl, info);
    const values = [name, wanted.owner, wanted.length, wanted.info, this.#limit];
    return (await this.#requests.run(this.#statements.renew, values)).length > 0;
  }

  async renewAll(
    keys: readonly string[],
    owner: string,
    ttl: number,
    info?: string,
  ): Promise<readonly boolean[]> {
    const names = checkKeyList(keys).map(nameOf);
    const wanted = this.#wanted(owner, ttl, info);
    const values = [JSON.stringify(names), wanted.owner, wanted.length, wanted.info, this.#limit];
    return placesIn(await this.#requests.run(this.#statements.renewAll, values), names);
  }

  async release(key: string, owner: string): Promise<boolean> {
    const name = nameOf(checkKey(key));
    const values = [name, encodeText(checkOwner(owner)), null, this.#limit];
    const [freed] = await this.#requests.run(this.#statements.release, values, undefined, true);
    if (freed?.['waited'] === false) this.#releases.wake(name);
    return freed !== undefined;
  }

  async releaseAll(keys: readonly string[], owner: string): Promise<readonly boolean[]> {
    const names = checkKeyList(keys).map(nameOf);
    const values = [JSON.stringify(names), encodeText(checkOwner(owner)), this.#limit];
    const rows = await this.#requests.run(this.#statements.releaseAll, values, undefined, true);
    for (const { place, waited } of rows) {
      if (waited === false) this.#releases.wake(names[Number(place) - 1]!);
    }
    return placesIn(rows, names);
  }

  async inspect(key: string): Promise<InfoLeaseState | undefined> {
    const name = nameOf(checkKey(key));
    const [row] = await this.#requests.run(this.#statements.inspect, [name]);
    if (row === undefined) return undefined;
    const info = row['info'];
    return {
      owner: decodeText(String(row['owner'])),
      token: BigInt(String(row['token'])),
      remaining: withoutDrift(Number(row['remaining']), this.#drift),
      ...(typeof info === 'string' && info !== '' ? { info: decodeText(info) } : {}),
    };
  }

  onRelease(key: string, listener: () => void): () => void {
    return this.#releases.listen(nameOf(checkKey(key)), listener);
  }

  close(): Promise<void> {
    this.#requests.close();
    this.#releases.close();
    this.#connection.close();
    return Promise.resolve();
  }

  #wanted(owner: string, ttl: number, info: string | undefined): Wanted {
    return {
      owner: encodeText(checkOwner(owner)),
      length: withDrift(checkTtl(ttl), this.#drift),
      info: info === undefined ? null : encodeText(checkInfo(info)),
      ttl,
    };
  }

  /** The row of a grant, or of who has it; undefined for a refusal of which nothing is known. */
  async #acquire(name: string, { owner, length, info }: Wanted): Promise<Row | undefined> {
    const values: unknown[] = [name, owner, length, String(this.#highest.of(name)), info, this.#limit];
    const late = this.#late.late([name], owner, tokensOf);
    const waits = this.#releases.isAwaited(name);
    if (waits) values.push(this.#releases.hears);
    const { poll, acquire } = this.#statements;
    const [row] = await this.#requests.run(waits ? poll : acquire, values, late);
    return row;
  }

  async #acquireAll(names: readonly string[], { owner, length, info }: Wanted): Promise<readonly Row[]> {
    const known = JSON.stringify(names.map((name) => String(this.#highest.of(name))));
    const hears = this.#releases.hears;
    const values = [JSON.stringify(names), owner, length, known, info, this.#limit, hears];
    return this.#requests.run(this.#statements.acquireAll, values, this.#late.late(names, owner, tokensOf));
  }

  #refused(name: string, { remaining, marked }: Row): void {
    this.#releases.refused(name, Number(remaining), marked === true);
  }

  #granting(names: readonly string[], tokens: readonly FencingToken[]): void {
    names.forEach((name, i) => this.#highest.add(name, tokens[i]!));
    const before = Math.floor(this.#granted / PURGE_AFTER);
    this.#granted += names.length;
    if (Math.floor(this.#granted / PURGE_AFTER) > before) {
      this.#requests.runAside(this.#statements.purge, []);
    }
  }

  /**
   * Frees exactly this grant, and no later one of the same owner. Nobody waits for that, since the lease ends by itself
   * anyway.
   */
  #giveBack(name: string, owner: string, token: string): void {
    this.#requests.runAside(this.#statements.release, [name, owner, token, this.#limit]);
  }
}

/** As the server keeps it. */
function nameOf(key: string): string {
  const text = encodeText(key);
  if (text.length * 4 <= LONGEST_KEY || Buffer.byteLength(text) <= LONGEST_KEY) return text;
  return HASHED + createHash('sha256').update(text).digest('hex');
}

/** What the rows grant, in the order of the keys. */
function tokensOf(rows: readonly Row[]): readonly string[] | undefined {
  const granted = rows.filter(({ token }) => typeof token === 'string');
  if (granted.length === 0) return undefined;
  return granted
    .sort((a, b) => Number(a['place'] ?? 0) - Number(b['place'] ?? 0))
    .map(({ token }) => String(token));
}

/** For each of the keys, whether there is a row with its place. */
function placesIn(rows: readonly Row[], names: readonly string[]): boolean[] {
  const places = new Set(rows.map(({ place }) => Number(place)));
  return names.map((_, i) => places.has(i + 1));
}
