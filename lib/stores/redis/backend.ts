import { randomBytes } from 'node:crypto';
import { LockError } from '../../common/errors.js';
import { FirstKeys } from '../../common/key-order.js';
import { LeaseStoreError, messageOf, storeDenied } from '../../lease/contract/errors.js';
import { cannotList } from '../../lease/contract/listing.js';
import { isInRange, type TextRange } from '../exact-text.js';
import { inGroups, type Ask, type ListingBackend, type StoredKey } from '../listing.js';
import type { Operation } from '../requests.js';
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
} from '../server-store.js';
import type { ReleaseFeed } from '../wakers.js';
import { connectionOf, type RedisClient } from './client.js';
import type { RedisConnection, Scan } from './connection.js';
import { highestOf, leaseName, leasePattern, markOf, textOf, waitersOf } from './key-names.js';
import type { OwnClient } from './own-client.js';
import {
  ACQUIRE,
  ACQUIRE_ALL,
  ACQUIRE_SHARED,
  BEFORE_INFO,
  INSPECT,
  INSPECT_ALL,
  KEEP,
  OF_CLUSTER,
  PASS_ON,
  PUT_OFF_READERS,
  RELEASE,
  RELEASE_ALL,
  RELEASE_SHARED,
  RENEW,
  RENEW_ALL,
  type Script,
  UNDECIDED,
} from './scripts.js';

const MICROSECOND = 1000n;
/**
 * Milliseconds to wait before the store retries a failed subscription. The client itself restores a lost
 * connection.
 */
const RETRY = 1000;
/**
 * Matches the replies for a missing or wrong password, and for an ACL that forbids the script or one of its
 * commands.
 */
const DENIED = /^(?:NOPERM|NOAUTH|WRONGPASS)\b|ACL failure in script|user executing the script can't/;
/** Matches the error for keys in different cluster slots, as Redis and proxies word it. */
const CROSS_SLOT = /CROSSSLOT|same slot/i;
/**
 * Matches the reply with which a node redirects a request for a key of another node. Only clients for
 * clusters follow such a redirection.
 */
const OTHER_NODE = /^(?:MOVED|ASK) \d/;
/** The results of a release. The script's numeric reply is an index into this list. */
const RELEASES: readonly Release[] = ['not held', 'unnotified', 'freed', 'left', 'reserved'];

/** The maximum number of leases that one request reads. */
const MOST_READ = 500;
/** The maximum number of requests that read leases at the same time. */
const AT_ONCE = 32;

/** A lease that SCAN has found. */
interface FoundName {
  /** The encoded key. */
  readonly text: string;
  /** The name on the server. */
  readonly name: string;
}

/**
 * Leases as keys of a Redis server or cluster. Each operation runs one script, so it takes one round trip.
 */
export class RedisBackend implements ListingBackend {
  readonly title = 'Redis';
  readonly releaseFeed: ReleaseFeed | undefined;
  readonly #connection: RedisConnection;
  /** The client, if the store created it. */
  readonly #own: OwnClient | undefined;
  readonly #prefix: string;
  /** The pub/sub channel of this store. No other store subscribes to it. */
  readonly #channel: string;
  /**
   * True once a reply showed that the client, which is meant for a single server, reaches a cluster through a
   * proxy.
   */
  #isProxiedCluster = false;
  /** The scripts that the server has run for {@link #runDetached}, so it can find them by their hash. */
  readonly #loaded = new Set<Script>();

  /**
   * `client` is the caller's client, which is ignored if `own` is given. `another` creates a second client.
   */
  constructor(
    client: unknown,
    own: OwnClient | undefined,
    prefix: string,
    another?: () => Promise<RedisClient>,
  ) {
    const connection = connectionOf(own?.client ?? client, another);
    this.#connection = connection;
    this.#own = own;
    this.#prefix = prefix;
    const store = randomBytes(12).toString('base64url');
    this.#channel = `${prefix}waiter:${store}${connection.isCluster ? OF_CLUSTER : ''}`;
    const { listen } = connection;
    if (listen === undefined) return;
    this.releaseFeed = {
      retryAfter: RETRY,
      passOn: (lease) => void this.#runDetached(PASS_ON, [lease, waitersOf(lease)], [this.#channel]),
      open: (listener) => listen(this.#channel, listener),
    };
  }

  nameOf(key: string): string {
    return leaseName(this.#prefix, key);
  }

  permanent(error: unknown): LockError | undefined {
    const message = messageOf(error);
    if (DENIED.test(message)) return storeDenied(this.title, error);
    return OTHER_NODE.test(message) && !this.#connection.isCluster ? otherNode(error) : undefined;
  }

  unreachable(): unknown {
    return this.#own?.failure();
  }

  inOneStep(names: readonly string[]): boolean {
    const first = highestOf(names[0]!);
    return (
      names.every((lease) => highestOf(lease) === first) ||
      !(this.#connection.isCluster || this.#isProxiedCluster)
    );
  }

  acquire(wanted: Wanted, attempt: Attempt, operation: Operation): Promise<Granted | Refused> {
    const channel = this.#channelFor(attempt, operation);
    if (wanted.names.length > 1) return this.#acquireAll(wanted, attempt.known, channel);
    return this.#acquireOne(wanted, attempt.known[0]!, channel);
  }

  renew(leases: readonly Renewing[]): Promise<(boolean | undefined)[]> {
    if (leases.length === 1) {
      const { name, owner, length, info } = leases[0]!;
      const args = [owner, String(length)];
      if (info !== undefined) args.push(infoText(info));
      return this.#run(RENEW, [name, markOf(name)], args, (reply) => [Number(reply) === 1]);
    }
    const keys = leases.flatMap(({ name }) => [name, markOf(name)]);
    const args = leases.flatMap(({ owner, length, info }) => {
      return [owner, String(length), info === undefined ? '' : `=${infoText(info)}`];
    });
    return this.#runAll(RENEW_ALL, keys, args, (replies) => {
      return replies.map((reply) => (Number(reply) === UNDECIDED ? undefined : Number(reply) === 1));
    });
  }

  keep({ name, owner, length, token, keptOwner }: Keeping): Promise<boolean> {
    const args = [owner, String(length), tokenText(token), keptOwner];
    return this.#run(KEEP, [name, markOf(name)], args, (reply) => Number(reply) === 1);
  }

  /**
   * A client may send a command again after its connection broke. If the first command released the lease,
   * the second command finds no lease and replies "not held", as for an expired lease. So a reply of "not
   * held" after a lost connection is treated as an error.
   */
  release(leases: readonly Releasing[]): Promise<(Release | undefined)[]> {
    const released = this.#releaseReader();
    if (leases.length === 1) {
      const { name, owner, token, inTurn } = leases[0]!;
      const args = [owner];
      if (token !== undefined || inTurn) args.push(token === undefined ? '' : tokenText(token));
      if (inTurn) args.push('', this.#channel);
      return this.#run(RELEASE, releaseNames(name), args, (reply) => [released(reply)]);
    }
    const keys = leases.flatMap(({ name }) => releaseNames(name));
    const args = leases.flatMap(({ owner, token }) => [owner, token === undefined ? '' : tokenText(token)]);
    return this.#runAll(RELEASE_ALL, keys, args, (replies) => replies.map(released));
  }

  takeBack({ name, owner, token }: Releasing, wasUsed: boolean): Promise<Release> {
    const args = [owner, tokenText(token!), wasUsed ? '1' : '0'];
    const released = this.#releaseReader();
    return this.#run(RELEASE, releaseNames(name), args, (reply) => released(reply)!);
  }

  acquireShared(
    { name, reader, length }: WantedShared,
    attempt: Attempt,
    operation: Operation,
  ): Promise<GrantedShared | Refused> {
    const channel = this.#channelFor(attempt, operation);
    const keys = acquireNames(name, channel);
    const args = [reader, String(length), channel ?? '', String(attempt.known[0]! / MICROSECOND)];
    return this.#run(ACQUIRE_SHARED, keys, args, (reply) => {
      const [first, group] = reply as [unknown, string?];
      if (group === undefined) {
        return { place: 0, wakeIn: Number(first), isRegistered: channel !== undefined };
      }
      const signed = BigInt(String(first));
      return { token: signed < 0n ? -signed : signed, group, abandoned: signed < 0n };
    });
  }

  releaseShared(name: string, reader: string): Promise<Release> {
    const released = this.#releaseReader();
    return this.#run(RELEASE_SHARED, [name, waitersOf(name)], [reader], (reply) => released(reply)!);
  }

  putOffReaders(name: string, milliseconds: number): Promise<boolean> {
    return this.#run(PUT_OFF_READERS, [name], [String(milliseconds)], (reply) => Number(reply) === 1);
  }

  /** The channel to register if the attempt is refused; undefined if the store does not wait for the key. */
  #channelFor({ isAwaited }: Attempt, { isSubscribed }: Operation): string | undefined {
    return isAwaited && isSubscribed ? this.#channel : undefined;
  }

  /** Returns a function that parses the reply of a release. Call before the release is sent. */
  #releaseReader(): (reply: unknown) => Release | undefined {
    const disconnects = this.#connection.disconnects?.count;
    return (reply) => {
      const release = RELEASES[Number(reply)];
      if (release !== 'not held' || this.#connection.disconnects?.count === disconnects) return release;
      throw new LeaseStoreError(
        'Redis failed: the connection was cut before the reply, and the lease may have been released before',
      );
    };
  }

  inspect(lease: string): Promise<StoredLease | undefined> {
    return this.#run(INSPECT, [lease], [], leaseOf);
  }

  /**
   * SCAN finds the names of all leases, in no particular order. After that, the store reads only the leases
   * to list.
   */
  async list(ranges: readonly TextRange[], most: number, ask: Ask): Promise<readonly StoredKey[]> {
    const { isCluster } = this.#connection;
    // A client for clusters learns the addresses of the servers with its first request.
    if (isCluster) await ask(() => this.inspect(this.nameOf('')));
    const scans = await ask(async () => this.#connection.scans?.());
    if (scans === undefined) throw cannotList("this Redis client cannot enumerate a server's keys");
    const found = new FirstKeys<FoundName>(most, ({ text }) => text);
    await Promise.all(scans.map((scan) => this.#scan(scan, ranges, found, ask)));
    const names = found.sorted();
    const read = (some: readonly FoundName[]): Promise<readonly StoredKey[]> => ask(() => this.#read(some));
    try {
      return (await inGroups(this.#together(names), AT_ONCE, read)).flat();
    } catch (error) {
      if (isCluster || !this.#isProxiedCluster) throw error;
      return (await inGroups(this.#together(names), AT_ONCE, read)).flat();
    }
  }

  async #scan(
    scan: Scan,
    ranges: readonly TextRange[],
    found: FirstKeys<FoundName>,
    ask: Ask,
  ): Promise<void> {
    const { keyPrefix = '' } = this.#connection;
    const pattern = leasePattern(keyPrefix + this.#prefix);
    let cursor = '0';
    do {
      const [next, scanned] = await ask(() => scan(cursor, pattern));
      for (const each of scanned) {
        const name = each.slice(keyPrefix.length);
        const text = textOf(this.#prefix, name);
        if (text !== undefined && ranges.some((range) => isInRange(text, range))) found.add({ text, name });
      }
      cursor = next;
    } while (cursor !== '0');
  }

  /**
   * Reads these leases, and returns those that are still held. In a cluster, all names must be in one slot.
   */
  #read(found: readonly FoundName[]): Promise<readonly StoredKey[]> {
    const names = found.map(({ name }) => name);
    return this.#runAll(INSPECT_ALL, names, [], (replies) =>
      found.flatMap(({ text }, i) => {
        const lease = leaseOf(replies[i]);
        return lease === undefined ? [] : [{ text, ...lease }];
      }),
    );
  }

  /** Divides leases into groups without changing their order. Each group is read by one request. */
  #together(found: readonly FoundName[]): readonly (readonly FoundName[])[] {
    const groups: FoundName[][] = [];
    const isSpread = this.#connection.isCluster || this.#isProxiedCluster;
    for (const one of found) {
      const group = groups.at(-1);
      const fits = group !== undefined && group.length < MOST_READ;
      if (fits && (!isSpread || highestOf(group[0]!.name) === highestOf(one.name))) group.push(one);
      else groups.push([one]);
    }
    return groups;
  }

  close(): void {
    this.#own?.end();
  }

  /**
   * `floor`: a lower bound for the new token, in microseconds. Set only for a retry after the server lost its
   * tokens.
   */
  #acquireOne(
    wanted: Wanted,
    known: bigint,
    channel: string | undefined,
    floor?: string,
  ): Promise<Granted | Refused> {
    const { names, owner, length, info } = wanted;
    const lease = names[0]!;
    const keys = acquireNames(lease, channel);
    const args = [owner, String(length)];
    if (channel !== undefined || floor !== undefined || info) args.push(channel ?? '');
    if (floor !== undefined || info) args.push(floor ?? '0');
    if (info) args.push(infoText(info));
    return this.#run(ACQUIRE, keys, args, (reply) => {
      if (Array.isArray(reply)) {
        return { place: 0, wakeIn: Number((reply as unknown[])[0]), isRegistered: channel !== undefined };
      }
      const granted = this.#granted(wanted, [reply]);
      const isLost = floor === undefined && granted.tokens[0]! <= known;
      return isLost ? this.#acquireOne(wanted, known, channel, String(known / MICROSECOND)) : granted;
    });
  }

  #acquireAll(
    wanted: Wanted,
    known: readonly bigint[],
    channel: string | undefined,
  ): Promise<Granted | Refused> {
    const { names, owner, length, info = '' } = wanted;
    const keys = names.flatMap((lease) => acquireNames(lease, channel));
    const floors = known.map((token) => String(token / MICROSECOND));
    const args = [owner, String(length), infoText(info), channel ?? '', ...floors];
    return this.#runAll(ACQUIRE_ALL, keys, args, ([isGranted, ...rest]) => {
      if (Number(isGranted) === 1) return this.#granted(wanted, rest);
      return { place: Number(rest[0]), wakeIn: Number(rest[1]), isRegistered: channel !== undefined };
    });
  }

  #granted({ names, owner }: Wanted, replies: readonly unknown[]): Granted {
    const signed = replies.map((token) => BigInt(String(token)));
    const tokens = signed.map((token) => (token < 0n ? -token : token));
    return {
      tokens,
      abandoned: signed.map((token) => token < 0n),
      giveBack: (place) => {
        const args = [owner, tokenText(tokens[place]!), '0'];
        void this.#runDetached(RELEASE, releaseNames(names[place]!), args);
      },
    };
  }

  /**
   * Runs a script by its hash. If the server does not have the script, the store sends the source in a second
   * round trip. This method creates only one promise, because each promise measurably slows down an operation
   * on a local server.
   */
  #run<T>(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    answered: (reply: unknown) => T | Promise<T>,
  ): Promise<T> {
    return this.#connection.run(script, keys, args, false).then(answered, (error: unknown) => {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
      return this.#connection.run(script, keys, args, true).then(answered);
    });
  }

  /**
   * Runs a script in the background. Never rejects. The first time, sends the script's source, because the
   * store may be closed before a second round trip, and because later requests must not overtake the script.
   * After the server's reply, sends only the hash. On a cluster, always sends the source, because another node
   * may not have the script.
   */
  async #runDetached(script: Script, keys: readonly string[], args: readonly string[]): Promise<void> {
    const isLoaded = this.#loaded.has(script) && !this.#connection.isCluster && !this.#isProxiedCluster;
    try {
      if (isLoaded) await this.#run(script, keys, args, () => undefined);
      else await this.#connection.run(script, keys, args, true);
      this.#loaded.add(script);
    } catch {
      // The lease to give back, or this store's reservation, expires by itself.
    }
  }

  /**
   * Runs a script on several keys. If the server rejects the request because the keys are in different slots,
   * this records that the server is a cluster.
   */
  #runAll<T>(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    answered: (replies: readonly unknown[]) => T,
  ): Promise<T> {
    return this.#run(script, keys, args, (reply) => answered(reply as unknown[])).catch((error: unknown) => {
      if (!CROSS_SLOT.test(String(error))) throw error;
      this.#isProxiedCluster = true;
      throw new LeaseStoreError(
        'Redis failed: the keys are in different slots of a cluster, so one request cannot reach them',
        error,
      );
    });
  }
}

/** The error for a client that can use only one node of a cluster. */
function otherNode(cause: unknown): LockError {
  const message =
    'the client of the Redis store is for a single server, but its server is one node of a cluster, and another node ' +
    `serves this key (${messageOf(cause)}): pass a client for clusters`;
  return new LockError('ERR_REDIS_CLUSTER', message, { cause });
}

/** Parses the reply of `INSPECT`. Undefined for a free key. */
function leaseOf(reply: unknown): StoredLease | undefined {
  if (!Array.isArray(reply)) return undefined;
  const [text, token, remaining] = reply as unknown[];
  const [owner = '', info = ''] = String(text).slice(1).split(BEFORE_INFO);
  return { owner, token: BigInt(String(token)), remaining: Number(remaining), info };
}

/** The KEYS of one lease for the scripts that acquire a lease. `channel`: the caller's, if the caller waits. */
function acquireNames(lease: string, channel: string | undefined): readonly string[] {
  const names = [lease, highestOf(lease), markOf(lease)];
  return channel === undefined ? names : [...names, waitersOf(lease)];
}

/** The KEYS of one lease for the scripts that release a lease. */
function releaseNames(lease: string): readonly string[] {
  return [lease, waitersOf(lease), markOf(lease)];
}

/** Formats a token as in the values of leases. */
function tokenText(token: bigint): string {
  return String(token).padStart(19, '0');
}

/** The text that follows the owner in a lease's value. Empty if the `info` text is empty. */
function infoText(info: string): string {
  return info === '' ? '' : BEFORE_INFO + info;
}
