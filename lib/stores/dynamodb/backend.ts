import { randomUUID } from 'node:crypto';
import { LockError } from '../../common/errors.js';
import { FirstKeys } from '../../common/key-order.js';
import { LeaseStoreError, storeDenied } from '../../lease/contract/errors.js';
import type { FencingToken } from '../../lease/contract/lease-store.js';
import { groupName } from '../../lease/contract/shared.js';
import { isInRange, type TextRange } from '../exact-text.js';
import { groupIn, groupText, putOffText, putOffUntilIn, type Group } from '../group-text.js';
import { inGroups, type Ask, type ListingBackend, type StoredKey } from '../listing.js';
import { NEVER_LATE, NOT_ASKED, type TimeLimit } from '../requests.js';
import type {
  Attempt,
  Granted,
  GrantedShared,
  Keeping,
  Refused,
  Release,
  Releasing,
  Renewing,
  StoredLease,
  Wanted,
  WantedShared,
} from '../server-store.js';
import { ignore, nameOfKey } from '../tables.js';
import { dateOf, keepDates, type Client, type Item } from './client.js';
import { entryOf, putting, type Entry, type Read } from './items.js';

/** The maximum length of a stored key, in bytes. The service accepts partition keys of twice this length. */
const LONGEST_KEY = 1024;
/** The maximum number of keys in a transaction, a limit of the service. */
const MOST_KEYS = 100;
/** The maximum number of keys that one operation reads or writes at the same time. */
const AT_ONCE = 25;
/**
 * Milliseconds by which a `Date` header may be behind the clock, because the header is rounded down to whole
 * seconds.
 */
const SECOND = 1000;
const NANOSECONDS = 1_000_000n;

/**
 * Errors of writes that changed nothing, because another client wrote the item or because a transaction is in
 * progress.
 */
const COLLISIONS: ReadonlySet<unknown> = new Set([
  'ConditionalCheckFailedException',
  'TransactionConflictException',
  'TransactionInProgressException',
]);
/**
 * The corresponding codes for single items of a transaction. `None` marks an item that did not cause the
 * cancellation.
 */
const COLLISION_REASONS: ReadonlySet<unknown> = new Set([
  'None',
  'ConditionalCheckFailed',
  'TransactionConflict',
]);
/**
 * Errors for missing rights, unknown credentials, and a table that is missing or has a different primary key.
 */
const DENIED: ReadonlySet<unknown> = new Set([
  'AccessDeniedException',
  'UnrecognizedClientException',
  'ResourceNotFoundException',
  'ValidationException',
]);

/** An item as it was read. */
interface Seen {
  readonly name: string;
  readonly entry: Read | undefined;
  /**
   * The service's time in milliseconds, rounded down to a second. The real time is less than a second later.
   */
  readonly at: number;
}

interface Change extends Seen {
  readonly after: Entry;
}

/**
 * Leases as items of a table. Each operation reads an item, and then writes the item only if it has not
 * changed since the read.
 */
export class DynamodbBackend implements ListingBackend {
  readonly title = 'DynamoDB';
  readonly #client: Client;
  readonly #table: string;
  readonly #skew: number;

  /** `skew` is in milliseconds. */
  constructor(client: Client, table: string, skew: number) {
    this.#client = client;
    this.#table = table;
    this.#skew = skew;
    keepDates(client);
  }

  nameOf(key: string): string {
    return nameOfKey(key, LONGEST_KEY);
  }

  inOneStep(names: readonly string[]): boolean {
    return names.length <= MOST_KEYS;
  }

  retries(error: unknown): boolean {
    return isCollision(error);
  }

  permanent(error: unknown): LockError | undefined {
    return DENIED.has(nameOfError(error)) ? storeDenied(this.title, error) : undefined;
  }

  async acquire(
    { names, owner, length, info }: Wanted,
    { known }: Attempt,
    operation: TimeLimit,
  ): Promise<Granted | Refused> {
    const seen = await inGroups(names, AT_ONCE, (name) => this.#read(name));
    const place = seen.findIndex((one) => isHeld(one) && one.entry.owner !== owner);
    if (place >= 0) return { place, wakeIn: seen[place]!.entry!.ends - seen[place]!.at };
    const abandoned = seen.map((one) => {
      return isHeld(one) ? one.entry.abandoned === true : isAbandoned(one);
    });
    const changes = seen.map((one, i): Change => {
      const token = tokenAfter(one, known[i]!);
      // A new grant to the same owner does not shorten its lease.
      const ends = Math.max(isHeld(one) ? one.entry.ends : 0, this.#endOf(one, length));
      return { ...one, after: { token, ends, owner, info, abandoned: abandoned[i] } };
    });
    await this.#write(changes, operation);
    const tokens = changes.map(({ after }) => after.token);
    const giveBack = (i: number): void => {
      this.#takeBack({ name: names[i]!, owner, token: tokens[i] }, false, NEVER_LATE).catch(ignore);
    };
    return { tokens, abandoned, giveBack };
  }

  async acquireShared(
    { name, reader, length }: WantedShared,
    { known }: Attempt,
    operation: TimeLimit,
  ): Promise<GrantedShared | Refused> {
    const seen = await this.#read(name);
    const ends = this.#endOf(seen, length);
    if (!isHeld(seen)) {
      const putOffUntil = seen.entry?.owner === undefined ? putOffUntilIn(seen.entry?.info) : undefined;
      if (putOffUntil !== undefined && putOffUntil > seen.at) {
        return { place: 0, wakeIn: putOffUntil - seen.at };
      }
      const abandoned = isAbandoned(seen);
      const token = tokenAfter(seen, known[0]!);
      const owner = groupName(reader, token);
      const info = groupText({ putOffUntil: seen.at, abandoned, readers: [reader] });
      const after = { token, ends, owner, info, abandoned: abandoned || undefined };
      await this.#write([{ ...seen, after }], operation);
      return { token, group: owner, abandoned };
    }
    const { entry, at } = seen;
    const group = groupIn(entry);
    if (group === undefined) return { place: 0, wakeIn: entry.ends - at };
    const isNew = !group.readers.includes(reader);
    if (isNew && group.putOffUntil > at) {
      return { place: 0, wakeIn: Math.min(entry.ends, group.putOffUntil) - at };
    }
    const info = isNew ? groupText({ ...group, readers: [...group.readers, reader] }) : entry.info;
    const after = { ...entry, info, ends: Math.max(entry.ends, ends) };
    await this.#write([{ ...seen, after }], operation);
    return { token: entry.token, group: entry.owner, abandoned: group.abandoned };
  }

  async releaseShared(name: string, reader: string, operation: TimeLimit): Promise<Release> {
    let readers: readonly string[] = [];
    const left = this.#changeGroup(name, operation, (lease, group) => {
      if (!group.readers.includes(reader)) return undefined;
      readers = group.readers.filter((one) => one !== reader);
      if (readers.length > 0) return { ...lease.entry, info: groupText({ ...group, readers }) };
      const info = group.putOffUntil > lease.at ? putOffText(group.putOffUntil) : undefined;
      return { ...freed(lease), info, abandoned: lease.entry.abandoned };
    });
    const release = await releaseOf(left);
    return release === 'unnotified' && readers.length > 0 ? 'left' : release;
  }

  putOffReaders(name: string, milliseconds: number, operation: TimeLimit): Promise<boolean> {
    return this.#changeGroup(name, operation, (lease, group) => {
      const putOffUntil = Math.max(group.putOffUntil, this.#endOf(lease, milliseconds));
      return { ...lease.entry, info: groupText({ ...group, putOffUntil }) };
    });
  }

  renew(keys: readonly Renewing[], operation: TimeLimit): Promise<readonly (boolean | undefined)[]> {
    return each(keys, ({ name, owner, length, info }) => {
      return this.#change({ name, owner, token: undefined }, operation, (lease) => {
        const ends = Math.max(lease.entry.ends, this.#endOf(lease, length));
        return { ...lease.entry, ends, info: info ?? lease.entry.info };
      });
    });
  }

  async keep(key: Keeping, operation: TimeLimit): Promise<boolean> {
    const { length, keptOwner: owner } = key;
    const isKept = await this.#change(key, operation, (lease) => {
      return { ...lease.entry, owner, ends: this.#endOf(lease, length), abandoned: undefined };
    });
    if (isKept) return true;
    // An earlier copy of this request may have ended the grant.
    const seen = await this.#read(key.name);
    return isHeld(seen) && seen.entry.owner === owner && seen.entry.token === key.token;
  }

  release(keys: readonly Releasing[], operation: TimeLimit): Promise<readonly (Release | undefined)[]> {
    return each(keys, (key) => releaseOf(this.#free(key, operation)));
  }

  takeBack(key: Releasing, wasUsed: boolean, operation: TimeLimit): Promise<Release> {
    return releaseOf(this.#takeBack(key, wasUsed, operation));
  }

  async inspect(name: string): Promise<StoredLease | undefined> {
    const seen = await this.#read(name);
    return isHeld(seen) ? this.#stored(seen) : undefined;
  }

  /** Reads the whole table, because the items of a table are not sorted by key. */
  async list(ranges: readonly TextRange[], most: number, ask: Ask): Promise<readonly StoredKey[]> {
    const found = ranges.map(() => new FirstKeys<StoredKey>(most, ({ text }) => text));
    let start: Item | undefined;
    do {
      const input = {
        TableName: this.#table,
        ConsistentRead: true,
        ...(start && { ExclusiveStartKey: start }),
      };
      const page = await ask(() => this.#client.scan(input));
      const at = dateOf(page);
      for (const item of page.Items ?? []) {
        const seen = { name: item['name']!.S!, entry: entryOf(item), at };
        const place = ranges.findIndex((range) => isInRange(seen.name, range));
        if (place >= 0 && isHeld(seen)) found[place]!.add({ text: seen.name, ...this.#stored(seen) });
      }
      start = page.LastEvaluatedKey;
    } while (start !== undefined);
    return found.flatMap((leases) => leases.sorted()).slice(0, most);
  }

  /**
   * The end to write for a lease that lasts `length` milliseconds. The end is computed from the latest
   * possible time of the service, because clients compare the end with the earliest possible time.
   */
  #endOf({ at }: Seen, length: number): number {
    return at + SECOND + this.#skew + length;
  }

  #stored({ entry, at }: Lease): StoredLease {
    const { owner, token, ends, info = '' } = entry;
    // This is the time until the earliest possible end, because the holder may rely only on that.
    return { owner, token, remaining: ends - at - SECOND - this.#skew, info };
  }

  async #read(name: string): Promise<Seen> {
    const input = { TableName: this.#table, Key: { name: { S: name } }, ConsistentRead: true };
    const output = await this.#client.getItem(input);
    return { name, entry: output.Item && entryOf(output.Item), at: dateOf(output) };
  }

  #free(key: Releasing, operation: TimeLimit): Promise<boolean> {
    return this.#change(key, operation, freed);
  }

  /**
   * Ends an unreleased grant. If the key is now abandoned, its item is the same as after an expiry, but
   * without an owner. If the owner stayed, a later renewal could find the lease unexpired, because that
   * renewal may get an earlier time from the service.
   */
  #takeBack(key: Releasing, wasUsed: boolean, operation: TimeLimit): Promise<boolean> {
    return this.#change(key, operation, (lease) => {
      const { entry, at } = lease;
      const isAbandoned = entry.abandoned !== undefined && (wasUsed || entry.abandoned);
      return isAbandoned ? { ...entry, owner: undefined, ends: at, info: undefined } : freed(lease);
    });
  }

  /** Changes a lease. Returns false if the owner does not hold the required grant. */
  async #change(
    { name, owner, token }: Releasing,
    operation: TimeLimit,
    after: (lease: Lease) => Entry,
  ): Promise<boolean> {
    const seen = await this.#read(name);
    if (!isHeld(seen) || seen.entry.owner !== owner) return false;
    if (token !== undefined && seen.entry.token !== token) return false;
    await this.#write([{ ...seen, after: after(seen) }], operation);
    return true;
  }

  /**
   * Changes the lease of the group that holds the key. Returns false if no group holds the key, or if `after` returns
   * undefined.
   */
  async #changeGroup(
    name: string,
    operation: TimeLimit,
    after: (lease: Lease, group: Group) => Entry | undefined,
  ): Promise<boolean> {
    const seen = await this.#read(name);
    const group = isHeld(seen) ? groupIn(seen.entry) : undefined;
    const changed = group && after(seen as Lease, group);
    if (changed === undefined) return false;
    await this.#write([{ ...seen, after: changed }], operation);
    return true;
  }

  /** Writes all items or none. Rejects if an item has changed since it was read. */
  async #write(changes: readonly Change[], operation: TimeLimit): Promise<void> {
    if (operation.isLate) throw NOT_ASKED;
    const version = randomUUID();
    const puts = changes.map(({ name, entry, after }) => putting(this.#table, name, entry, after, version));
    try {
      if (puts.length === 1) await this.#client.putItem(puts[0]!);
      else await this.#client.transactWriteItems({ TransactItems: puts.map((Put) => ({ Put })) });
    } catch (error) {
      if (!isCollision(error)) throw error;
      // The client repeats a request that got no answer. If the first request was executed, the repetition is
      // refused. The version then shows that the write succeeded.
      const { entry } = await this.#read(changes[0]!.name);
      if (entry?.version !== version) throw error;
    }
  }
}

/** A lease that is held. */
interface Lease extends Seen {
  readonly entry: Read & { readonly owner: string };
}

/**
 * Whether an owner may still hold the lease. This compares the lease's end with the earliest possible time of
 * the service.
 */
function isHeld(seen: Seen): seen is Lease {
  return seen.entry?.owner !== undefined && seen.entry.ends > seen.at;
}

/** Whether the last holder of a free key left it without a release. */
function isAbandoned({ entry }: Seen): boolean {
  return entry?.abandoned !== undefined;
}

/** The token of a new grant. `known`: the highest token that this store has received for the key. */
function tokenAfter({ entry, at }: Seen, known: FencingToken): FencingToken {
  return highestOf([(entry?.token ?? 0n) + 1n, known + 1n, BigInt(at) * NANOSECONDS]);
}

/** The entry of a key after a release. */
function freed({ entry, at }: Lease): Entry {
  return { token: entry.token, ends: at, owner: undefined, info: undefined, abandoned: undefined };
}

/** The result of a release, or an error if the answer of the service does not show the result. */
async function releaseOf(isFreed: Promise<boolean>): Promise<Release> {
  try {
    return (await isFreed) ? 'unnotified' : 'not held';
  } catch (error) {
    // The client repeats a request that got no answer. In that case, the first request may already have
    // released the key.
    const { $metadata } = error as { readonly $metadata?: { readonly attempts?: number } };
    if (!isCollision(error) || !(Number($metadata?.attempts) > 1)) throw error;
    throw new LeaseStoreError('DynamoDB did not answer whether the release was executed', error);
  }
}

/**
 * Sends a separate request for each key. If the request for a key failed, the key's answer is undefined.
 * Rejects if all requests failed.
 */
async function each<K, T>(
  keys: readonly K[],
  ask: (key: K) => Promise<T>,
): Promise<readonly (T | undefined)[]> {
  const failures: unknown[] = [];
  const answers = await inGroups(keys, AT_ONCE, (key) => {
    return ask(key).catch((error: unknown) => {
      if (error instanceof LockError) throw error;
      failures.push(error);
      return undefined;
    });
  });
  if (failures.length === keys.length) throw failures[0];
  return answers;
}

function isCollision(error: unknown): boolean {
  const { CancellationReasons: reasons } = error as {
    readonly CancellationReasons?: readonly { readonly Code?: string }[];
  };
  if (nameOfError(error) !== 'TransactionCanceledException') return COLLISIONS.has(nameOfError(error));
  return reasons !== undefined && reasons.every(({ Code }) => COLLISION_REASONS.has(Code));
}

const nameOfError = (error: unknown): unknown => (error as { readonly name?: unknown }).name;

const highestOf = (tokens: readonly FencingToken[]): FencingToken =>
  tokens.reduce((highest, token) => (token > highest ? token : highest));
