import { randomBytes } from 'node:crypto';
import type { LockError } from '../../common/errors.js';
import { LeaseStoreError, messageOf, storeDenied } from '../../lease/contract/errors.js';
import type { Operation } from '../requests.js';
import type {
  Attempt,
  Backend,
  Granted,
  StoredLease,
  Refused,
  Release,
  Releasing,
  Renewing,
  Wanted,
} from '../server-store.js';
import type { ReleaseFeed } from '../wakers.js';
import { connectionOf, type RedisConnection } from './client.js';
import { highestOf, leaseName, waitersOf } from './key-names.js';
import type { OwnClient } from './own-client.js';
import {
  ACQUIRE,
  ACQUIRE_ALL,
  BEFORE_INFO,
  INSPECT,
  KEEP,
  OF_CLUSTER,
  PASS_ON,
  RELEASE,
  RELEASE_ALL,
  RENEW,
  RENEW_ALL,
  type Script,
  UNDECIDED,
} from './scripts.js';

const MICROSECOND = 1000n;
/** Milliseconds before a failed subscription is retried. A lost connection recovers by itself. */
const RETRY = 1000;
/** Replies for a missing or wrong password, and for an ACL that forbids the script or one of its commands. */
const DENIED = /^(?:NOPERM|NOAUTH|WRONGPASS)\b|ACL failure in script|user executing the script can't/;
/** The error for keys in different cluster slots, as Redis and as proxies word it. */
const CROSS_SLOT = /CROSSSLOT|same slot/i;
/** Maps the numeric reply of the release script. */
const RELEASES: readonly Release[] = ['not held', 'unnotified', 'freed'];

/** Leases as keys of a Redis server or cluster. Each operation is one script, so one round trip. */
export class RedisBackend implements Backend {
  readonly title = 'Redis';
  readonly releaseFeed: ReleaseFeed | undefined;
  readonly #connection: RedisConnection;
  /** The client, if the store created it. */
  readonly #own: OwnClient | undefined;
  readonly #prefix: string;
  /** The pub/sub channel on which only this store listens. */
  readonly #channel: string;
  /** Whether the client looks like one of a single server but a proxy leads to a cluster. */
  #isProxiedCluster = false;

  /** `client` is the caller's client. It is ignored if `own` is given. */
  constructor(client: unknown, own: OwnClient | undefined, prefix: string) {
    const connection = connectionOf(own?.client ?? client);
    this.#connection = connection;
    this.#own = own;
    this.#prefix = prefix;
    const store = randomBytes(12).toString('base64url');
    this.#channel = `${prefix}waiter:${store}${connection.isCluster ? OF_CLUSTER : ''}`;
    const { listen } = connection;
    if (listen === undefined) return;
    this.releaseFeed = {
      retryAfter: RETRY,
      passOn: (lease) => void this.#runDetached(PASS_ON, lease, [this.#channel]),
      open: (listener) => listen(this.#channel, listener),
    };
  }

  nameOf(key: string): string {
    return leaseName(this.#prefix, key);
  }

  permanent(error: unknown): LockError | undefined {
    return DENIED.test(messageOf(error)) ? storeDenied(this.title, error) : undefined;
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

  acquire(wanted: Wanted, attempt: Attempt, { isSubscribed }: Operation): Promise<Granted | Refused> {
    const channel = attempt.isAwaited && isSubscribed ? this.#channel : undefined;
    if (wanted.names.length > 1) return this.#acquireAll(wanted, attempt.known, channel);
    return this.#acquireOne(wanted, attempt.known[0]!, channel);
  }

  renew(leases: readonly Renewing[]): Promise<(boolean | undefined)[]> {
    if (leases.length === 1) {
      const { name, owner, length, info } = leases[0]!;
      const args = [owner, String(length)];
      if (info !== undefined) args.push(textOf(info));
      return this.#run(RENEW, [name], args, (reply) => [Number(reply) === 1]);
    }
    const keys = leases.map(({ name }) => name);
    const args = leases.flatMap(({ owner, length, info }) => {
      return [owner, String(length), info === undefined ? '' : `=${textOf(info)}`];
    });
    return this.#runAll(RENEW_ALL, keys, args, (replies) => {
      return replies.map((reply) => (Number(reply) === UNDECIDED ? undefined : Number(reply) === 1));
    });
  }

  keep({ names, owner, length, tokens }: Wanted): Promise<boolean> {
    const args = [owner, String(length), tokenText(tokens![0]!)];
    return this.#run(KEEP, names, args, (reply) => Number(reply) === 1);
  }

  /**
   * A client may resend a command after its connection broke. If the first send released the lease, the second one
   * finds nothing. That looks like an expired lease, so this throws instead.
   */
  release(leases: readonly Releasing[]): Promise<(Release | undefined)[]> {
    const disconnects = this.#connection.disconnects?.count;
    const released = (reply: unknown): Release | undefined => {
      const release = RELEASES[Number(reply)];
      if (release !== 'not held' || this.#connection.disconnects?.count === disconnects) return release;
      throw new LeaseStoreError(
        'Redis failed: the connection was cut before the reply, and the lease may have been released before',
      );
    };
    const keys = leases.flatMap(({ name }) => [name, waitersOf(name)]);
    if (leases.length === 1) {
      const { owner, token } = leases[0]!;
      const args = token === undefined ? [owner] : [owner, tokenText(token)];
      return this.#run(RELEASE, keys, args, (reply) => [released(reply)]);
    }
    const args = leases.flatMap(({ owner, token }) => [owner, token === undefined ? '' : tokenText(token)]);
    return this.#runAll(RELEASE_ALL, keys, args, (replies) => replies.map(released));
  }

  inspect(lease: string): Promise<StoredLease | undefined> {
    return this.#run(INSPECT, [lease], [], (reply) => {
      if (!Array.isArray(reply)) return undefined;
      const [text, token, remaining] = reply as unknown[];
      const [owner = '', info = ''] = String(text).split(BEFORE_INFO);
      return { owner, token: BigInt(String(token)), remaining: Number(remaining), info };
    });
  }

  close(): void {
    this.#own?.end();
  }

  /** `floor` is set for a retry after the server lost its tokens: a lower bound, in microseconds, for the new token. */
  #acquireOne(
    wanted: Wanted,
    known: bigint,
    channel: string | undefined,
    floor?: string,
  ): Promise<Granted | Refused> {
    const { names, owner, length, info } = wanted;
    const lease = names[0]!;
    const keys = [lease, highestOf(lease)];
    if (channel !== undefined) keys.push(waitersOf(lease));
    const args = [owner, String(length)];
    if (channel !== undefined || floor !== undefined || info) args.push(channel ?? '');
    if (floor !== undefined || info) args.push(floor ?? '0');
    if (info) args.push(textOf(info));
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
    const keys = names.flatMap((lease) => {
      return channel === undefined ? [lease, highestOf(lease)] : [lease, highestOf(lease), waitersOf(lease)];
    });
    const floors = known.map((token) => String(token / MICROSECOND));
    const args = [owner, String(length), textOf(info), channel ?? '', ...floors];
    return this.#runAll(ACQUIRE_ALL, keys, args, ([isGranted, ...rest]) => {
      if (Number(isGranted) === 1) return this.#granted(wanted, rest);
      return { place: Number(rest[0]), wakeIn: Number(rest[1]), isRegistered: channel !== undefined };
    });
  }

  #granted({ names, owner }: Wanted, replies: readonly unknown[]): Granted {
    return {
      tokens: replies.map((token) => BigInt(String(token))),
      giveBack: (place) => {
        void this.#runDetached(RELEASE, names[place]!, [owner, String(replies[place])]);
      },
    };
  }

  /**
   * Runs a script by its hash. If the server no longer has it, the source is sent in a second round trip. It creates a
   * single promise, because each further promise is measurable with a local server.
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

  /** Runs a script on a lease and its waiters without waiting for the result. Never rejects. */
  async #runDetached(script: Script, lease: string, args: readonly string[]): Promise<void> {
    try {
      await this.#run(script, [lease, waitersOf(lease)], args, () => undefined);
    } catch {
      // The lease, or the reservation of the key for this store, expires by itself.
    }
  }

  /** Runs a script on several keys, and notes if they turn out to be on different servers. */
  #runAll<T>(
    script: Script,
    keys: readonly string[],
    args: readonly string[],
    answered: (replies: readonly unknown[]) => T,
  ): Promise<T> {
    return this.#run(script, keys, args, (reply) => answered(reply as unknown[])).catch((error: unknown) => {
      if (CROSS_SLOT.test(String(error))) this.#isProxiedCluster = true;
      throw error;
    });
  }
}

/** A token in the form in which lease values contain it. */
function tokenText(token: bigint): string {
  return String(token).padStart(19, '0');
}

/** The info in the form in which it follows the owner. */
function textOf(info: string): string {
  return info === '' ? '' : BEFORE_INFO + info;
}
