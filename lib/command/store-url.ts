import { existsSync } from 'node:fs';
import { clearTimeout, setTimeout } from '../common/host.js';
import type { ClosableLeaseStore, ExactLeaseStore, InfoLeaseStore } from '../lease/contract/lease-store.js';
import type { ListingLeaseStore } from '../lease/contract/listing.js';
import type { ClientPackage } from '../stores/client-packages.js';

/**
 * The time limit of one operation, in milliseconds. The first operation also connects, which takes most of
 * this time.
 */
const TIMEOUT = 10_000;

export type Store = InfoLeaseStore & ExactLeaseStore & ListingLeaseStore & ClosableLeaseStore;

/** A store that was opened by a URL. */
interface OpenedStore {
  readonly store: Store;
  /** Closes the store and its client. */
  close(): Promise<void>;
}

/** Options for opening a store. */
interface OpenOptions {
  /** Whether to create a missing file. */
  readonly creates: boolean;
}

type Open = (url: string, options: OpenOptions) => Promise<OpenedStore>;

/**
 * The functions that open a store, by the scheme of its URL. Each loads only the client package that it
 * needs.
 */
const OPENERS: Readonly<Record<string, Open>> = {
  redis: openRedis,
  rediss: openRedis,
  postgres: openPostgres,
  postgresql: openPostgres,
  mysql: openMysql,
  mongodb: openMongodb,
  'mongodb+srv': openMongodb,
  etcd: openEtcd,
  sqlite: openSqlite,
};

/** The supported forms of a URL, for messages. */
export const STORE_URLS =
  'redis://, rediss://, postgres://, postgresql://, mysql://, mongodb://, mongodb+srv://, etcd:// or sqlite:file';

/**
 * Opens a store for `use`, with the client package that the user has installed, and closes the store
 * afterwards. Error messages contain neither the URL nor its password. `shown` removes both from a text.
 */
export async function withStore<T>(
  url: string,
  options: OpenOptions,
  use: (store: Store, shown: (text: string) => string) => Promise<T>,
): Promise<T> {
  const shown = (text: string): string => withoutSecrets(text, url);
  try {
    const opened = await openStore(url, options);
    try {
      return await use(opened.store, shown);
    } finally {
      await soon(opened.close());
    }
  } catch (error) {
    // The new error has no cause, because the original error may contain the URL, too.
    throw new Error(shown((error as Error).message));
  }
}

/** The maximum time for closing, in milliseconds. */
const CLOSING = 2000;

/**
 * Resolves when the promise settles, or after {@link CLOSING} milliseconds. So an unreachable server cannot
 * delay the end.
 */
export async function soon(promise: Promise<unknown>): Promise<void> {
  let timer: unknown;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, CLOSING)));
  await Promise.race([promise.catch(() => undefined), late]);
  clearTimeout(timer as NodeJS.Timeout);
}

async function openStore(url: string, options: OpenOptions): Promise<OpenedStore> {
  const scheme = /^([a-z][a-z\d+.-]*):/i.exec(url)?.[1]?.toLowerCase() ?? '';
  const open = Object.hasOwn(OPENERS, scheme) ? OPENERS[scheme] : undefined;
  if (open === undefined) throw new Error(`the store's URL must begin with ${STORE_URLS}`);
  // Other URLs are not checked here. A file has no host. etcd may have several hosts, which `URL` does not
  // accept. The drivers check the URLs of MongoDB.
  if (/^(?:redis|postgres|mysql)/.test(scheme) && !URL.canParse(url)) {
    throw new Error(
      "the store's URL is not valid: percent-encode special characters of its user and password",
    );
  }
  return open(url, options);
}

/** Replaces the URL and its password in a text, because client libraries may quote them. */
export function withoutSecrets(text: string, url: string): string {
  const [, inAddress = ''] = /\/\/[^/?#]*?:(.*)@/.exec(url) ?? [];
  const inQuery = [...url.matchAll(/[?&]pass\w*=([^&#]*)/gi)].map(([, value]) => value!);
  const secrets = [url, ...[inAddress, ...inQuery].flatMap((secret) => [secret, decoded(secret)])];
  return secrets
    .filter((secret) => secret !== '')
    .reduce((shown, secret) => shown.replaceAll(secret, '\u2026'), text);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Loads the first of these packages that is installed. */
async function clientPackage<const N extends string>(
  server: string,
  ...names: readonly N[]
): Promise<ClientPackage<N>> {
  // Like the stores, this module is loaded only when a store is opened. Other commands start without it.
  const { loadClientPackage } = await import('../stores/client-packages.js');
  const found = loadClientPackage(names);
  if (found !== undefined) return found;
  // A name may include a subpath: mysql2/promise. The subpath is not part of the package's name.
  const install = names.map((name) => `npm install ${name.split('/')[0]}`).join(' or ');
  throw new Error(`a store in ${server} needs a client package, and none is installed: ${install}`);
}

/** An opened store whose `close` also calls `end`, because the store does not close its client. */
const opened = (store: Store, end: () => unknown): OpenedStore => ({
  store,
  async close() {
    await store.close();
    await end();
  },
});

const nothing = (): void => undefined;

async function openRedis(url: string): Promise<OpenedStore> {
  await clientPackage('Redis', 'ioredis', 'iovalkey', 'redis');
  const { redisLeaseStore } = await import('../stores/redis/store.js');
  return opened(redisLeaseStore({ url, timeout: TIMEOUT }), nothing);
}

/** The parts of the client packages that this module uses. */
interface Pool {
  end(): Promise<void>;
}
interface Pg {
  Pool: new (options: object) => Pool;
}
type Postgres = (url: string, options: object) => Pool;
interface Mysql {
  createPool(options: object | string): Pool;
}
interface Mongodb {
  MongoClient: new (url: string) => { db(): never; close(): Promise<void> };
}

/** The maximum number of connections of a pool. */
const CONNECTIONS = 2;

async function openPostgres(url: string): Promise<OpenedStore> {
  const found = await clientPackage('PostgreSQL', 'pg', 'postgres');
  const { postgresLeaseStore } = await import('../stores/postgres/store.js');
  const pool =
    found.name === 'pg'
      ? new (found.exports as Pg).Pool({ connectionString: url, max: CONNECTIONS })
      : (found.exports as Postgres)(url, { max: CONNECTIONS, fetch_types: false });
  return opened(postgresLeaseStore({ pool, timeout: TIMEOUT }), () => pool.end());
}

async function openMysql(url: string): Promise<OpenedStore> {
  const found = await clientPackage('MySQL', 'mysql2/promise', 'mariadb');
  const { mysqlLeaseStore } = await import('../stores/mysql/store.js');
  const mysql = found.exports as Mysql;
  const pool =
    found.name === 'mariadb'
      ? mysql.createPool(mariadbUrl(url))
      : mysql.createPool({ uri: url, connectionLimit: CONNECTIONS });
  return opened(mysqlLeaseStore({ pool, timeout: TIMEOUT }), () => pool.end());
}

/**
 * The form of URL that `mariadb` accepts. Its options can only be part of the URL. The password stays as it is
 * written, because `withoutSecrets` must find it in the messages of `mariadb`.
 */
function mariadbUrl(url: string): string {
  const [address = ''] = url.replace(/^mysql:/i, 'mariadb:').split('#');
  return `${address}${address.includes('?') ? '&' : '?'}connectionLimit=${CONNECTIONS}`;
}

async function openMongodb(url: string): Promise<OpenedStore> {
  const { exports } = await clientPackage('MongoDB', 'mongodb');
  const { mongodbLeaseStore } = await import('../stores/mongodb/store.js');
  const client = new (exports as Mongodb).MongoClient(url);
  return opened(mongodbLeaseStore({ db: client.db(), timeout: TIMEOUT }), () => client.close());
}

/** Opens `etcd://user:password@host:2379,other:2379`. With `?tls=true`, it uses https. */
async function openEtcd(url: string): Promise<OpenedStore> {
  const { etcdLeaseStore } = await import('../stores/etcd/store.js');
  const [, user, hosts, query = ''] = /^etcd:\/\/(?:(.*)@)?([^@/?]+)\/?(?:\?(.*))?$/i.exec(url) ?? [];
  if (hosts === undefined) throw new Error("the store's URL must have the form etcd://host:2379,host:2379");
  const scheme = new URLSearchParams(query).get('tls') === 'true' ? 'https' : 'http';
  const endpoints = hosts
    .split(',')
    .map((host) => `${scheme}://${host.includes(':') ? host : `${host}:2379`}`);
  const [username = '', ...password] = (user ?? '').split(':');
  const credentials = { username: decoded(username), password: decoded(password.join(':')) };
  const options = { endpoints, timeout: TIMEOUT, ...(user !== undefined && { credentials }) };
  return opened(etcdLeaseStore(options), nothing);
}

async function openSqlite(url: string, { creates }: OpenOptions): Promise<OpenedStore> {
  const path = url.slice('sqlite:'.length).replace(/^\/\/(?=\/)/, '');
  if (!creates && !existsSync(path)) throw new Error(`there is no SQLite file ${JSON.stringify(path)}`);
  const { sqliteLeaseStore } = await import('../stores/sqlite/store.js');
  if (hasSqlite()) {
    return opened(sqliteLeaseStore({ path, timeout: TIMEOUT }), nothing);
  }
  const { exports } = await clientPackage('SQLite, on a Node without node:sqlite,', 'better-sqlite3');
  const database = new (exports as new (path: string) => { prepare: never; exec: never; close(): void })(
    path,
  );
  return opened(sqliteLeaseStore({ database, timeout: TIMEOUT }), () => database.close());
}

/**
 * Whether Node has `node:sqlite`. Suppresses the warning that this module is experimental, because a command
 * prints only what concerns its user.
 */
function hasSqlite(): boolean {
  // eslint-disable-next-line @typescript-eslint/unbound-method -- it is put back as it is
  const { emitWarning } = process;
  process.emitWarning = () => undefined;
  try {
    return process.getBuiltinModule('node:sqlite') !== undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}
