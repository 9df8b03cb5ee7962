import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { MemoryLeaseStore, type KeyedLock, type LeaseManager } from 'stripelock';
import { cacheLeaseStore } from 'stripelock/cache';
import type { ProcessLock } from 'stripelock/process';
import { missingPackage } from '../support/dynamodb-clients.mjs';
import { StandIn as DynamodbStandIn } from '../support/dynamodb/stand-in.mjs';
import { EtcdCluster, hasEtcd } from '../support/etcd-server.mjs';
import { clientOf, FakeCache } from '../support/fake-cache.js';
import { makeActions, openGround, type Ground } from '../support/ground.mjs';
import { StandIn as MongodbStandIn } from '../support/mongodb/stand-in.mjs';
import { hasMysql, MysqlServer } from '../support/mysql-server.mjs';
import type { Place } from '../support/open-lease-store.mjs';
import { hasPostgres, PostgresServer } from '../support/postgres-server.mjs';
import { redisCommand, RedisServer } from '../support/redis-server.mjs';
import { sqliteDrivers } from '../support/sqlite-drivers.mjs';

const PROGRAM = new URL('../programs/feature-peer.mjs', import.meta.url);

/** What a peer tells of a hold that it keeps. */
export interface Got {
  readonly token: bigint;
  readonly abandoned: boolean | undefined;
}

/** Another thread or process with the same locks, which does what it is asked for. */
export interface Peer {
  ask(action: 'acquire' | 'tryAcquire', keys: string | string[], options?: object): Promise<Got | undefined>;
  ask(action: 'open', ground: Ground): Promise<unknown>;
  ask(action: 'lead', name: string, ttl: number): Promise<unknown>;
  ask(action: 'release' | 'renew'): Promise<unknown>;
  kill(): Promise<unknown>;
}

interface Port {
  on(event: 'message', listener: (answer: Answer) => void): unknown;
  once(event: 'exit', listener: () => void): unknown;
}
interface Answer {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: { readonly code?: string; readonly message: string };
}

/** A peer behind a port, and the answers that are open. */
function peerAt(port: Port, send: (message: object) => void, kill: () => Promise<unknown>): Peer {
  const open = new Map<number, (answer: Answer) => void>();
  const ended: Answer = { id: -1, error: { message: 'the peer has ended' } };
  let isRunning = true;
  let asked = 0;
  port.on('message', (answer) => {
    open.get(answer.id)?.(answer);
    open.delete(answer.id);
  });
  port.once('exit', () => {
    isRunning = false;
    for (const answered of open.values()) answered(ended);
  });
  const ask = async (action: string, ...args: unknown[]): Promise<never> => {
    const id = asked++;
    const { result, error } = await new Promise<Answer>((resolve) => {
      if (isRunning) {
        open.set(id, resolve);
        send({ id, action, args });
      } else {
        resolve(ended);
      }
    });
    if (error !== undefined) throw Object.assign(new Error(error.message), { code: error.code });
    return result as never;
  };
  return { ask, kill };
}

function startThread(): Peer {
  const worker = new Worker(PROGRAM);
  return peerAt(
    worker,
    (message) => worker.postMessage(message),
    () => worker.terminate(),
  );
}

function startProcess(): Peer {
  const child = fork(fileURLToPath(PROGRAM), { serialization: 'advanced' });
  const ended = once(child, 'exit');
  const kill = (): Promise<unknown> => {
    child.kill('SIGKILL');
    return ended;
  };
  return peerAt(child, (message) => child.send(message), kill);
}

/** A peer in this thread, for a store that only this thread has. Its connection breaks when it is killed. */
function startInThread(connection: { broken: boolean }): Peer {
  const actions = makeActions() as Record<string, (...args: unknown[]) => unknown>;
  return {
    ask: async (action: string, ...args: unknown[]) => (await actions[action]!(...args)) as never,
    kill: () => Promise.resolve((connection.broken = true)),
  };
}

export type Kind = 'threads' | 'processes' | 'leases';

/** What the checks of a column use. */
export interface Reach {
  readonly kind: Kind;
  /** The name of the locks, or of the leases. */
  readonly name: string;
  readonly lock: KeyedLock & ProcessLock & LeaseManager;
  /** Arguments of `stripelock run`, without the key. Undefined if the command cannot get at the lock. */
  readonly run: readonly string[] | undefined;
  /** Opens a lock with other options here, which ends with the reach. */
  open(options: object): Promise<{ readonly lock: Reach['lock']; readonly ground: Ground }>;
  /** A peer with the same locks, and the same one until it is killed. */
  peer(): Promise<Peer>;
  close(): Promise<void>;
}

/** A started column. `ground`: what this thread opens, and a peer that names no other. */
interface Started {
  readonly ground: (options: object) => Ground;
  readonly peer: () => { readonly peer: Peer; readonly ground?: Ground };
  readonly run?: readonly string[];
  readonly stop: () => unknown;
}

export interface Column {
  readonly title: string;
  readonly kind: Kind;
  /** The program or package that its checks need, if that is missing here. */
  readonly missing: string | undefined;
  readonly start: () => Promise<Started>;
}

export async function openReach({ title, kind, start }: Column): Promise<Reach> {
  const started = await start();
  const closing: (() => unknown)[] = [started.stop];
  const open = async (options: object): Promise<{ lock: Reach['lock']; ground: Ground }> => {
    const opened = await openGround(started.ground(options));
    const lock = opened.lock as Reach['lock'];
    closing.push(opened.close);
    // A thread gets the lock itself, by its handle.
    const ground = kind === 'threads' ? { handle: lock.handle } : started.ground(options);
    return { lock, ground };
  };
  const close = async (): Promise<void> => {
    for (const end of closing.reverse()) await end();
  };
  const { lock, ground } = await open({}).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  let peer: Promise<Peer> | undefined;
  const startPeer = async (): Promise<Peer> => {
    const made = started.peer();
    const kill = (): Promise<unknown> => {
      peer = undefined;
      return made.peer.kill();
    };
    try {
      await made.peer.ask('open', made.ground ?? ground);
    } catch (error) {
      await kill();
      throw error;
    }
    return { ask: made.peer.ask.bind(made.peer), kill };
  };
  return {
    kind,
    name: title,
    lock,
    run: started.run,
    open,
    peer: () => (peer ??= startPeer()),
    async close() {
      try {
        await (await peer)?.kill();
      } finally {
        await close();
      }
    },
  };
}

const folder = (): { folder: string; remove: () => void } => {
  const made = mkdtempSync(path.join(os.tmpdir(), 'stripelock-features-'));
  return { folder: made, remove: () => rmSync(made, { recursive: true, force: true, maxRetries: 3 }) };
};

/** A column of a store: how it starts, where it then is, and its URL for the command. */
function storeColumn(
  title: string,
  missing: string | undefined,
  start: () => Promise<{ place: Place; url?: string; stop: () => unknown }>,
  startPeer = startProcess,
): Column {
  return {
    title,
    kind: 'leases',
    missing,
    async start() {
      const { place, url, stop } = await start();
      const ground = { place, name: title };
      const run = url === undefined ? {} : { run: ['--store', url, '--key'] };
      return { ground: () => ground, peer: () => ({ peer: startPeer() }), stop, ...run };
    },
  };
}

const without = (what: string, isThere: boolean): string | undefined => (isThere ? undefined : what);

/** All columns of the table, from the left. */
export const columns: readonly Column[] = [
  {
    title: 'threads',
    kind: 'threads',
    missing: undefined,
    start: () =>
      Promise.resolve({
        ground: (options) => ({ keyed: { name: 'threads', ...options } }),
        peer: () => ({ peer: startThread() }),
        stop: () => undefined,
      }),
  },
  {
    title: 'processes',
    kind: 'processes',
    missing: undefined,
    start: () => {
      const { folder: made, remove } = folder();
      const fileOf = ({ limit = 1 }: { limit?: number }): string => path.join(made, `${limit}.lock`);
      return Promise.resolve({
        ground: (options) => ({ file: { path: fileOf(options), name: 'processes', ...options } }),
        peer: () => ({ peer: startProcess() }),
        run: ['--path', fileOf({}), '--key'],
        stop: remove,
      });
    },
  },
  storeColumn(
    'memory',
    undefined,
    () => Promise.resolve({ place: { handle: new MemoryLeaseStore().handle }, stop: () => undefined }),
    startThread,
  ),
  storeColumn('SQLite', without('driver of SQLite', sqliteDrivers.length > 0), () => {
    const { folder: made, remove } = folder();
    const file = path.join(made, 'leases.db');
    return Promise.resolve({ place: { sqlite: file }, url: `sqlite:${file}`, stop: remove });
  }),
  storeColumn('Redis', without('redis-server', redisCommand !== undefined), async () => {
    const server = await RedisServer.start();
    const url = `redis://127.0.0.1:${server.port}`;
    return { place: { url }, url, stop: () => server.stop() };
  }),
  storeColumn('PostgreSQL', without('postgres', hasPostgres), async () => {
    const server = await PostgresServer.start();
    return { place: { postgres: 'pg', server: server.port }, url: server.url, stop: () => server.stop() };
  }),
  storeColumn('MySQL', without('mariadbd', hasMysql), async () => {
    const server = await MysqlServer.start();
    const place: Place = { mysql: 'mysql2/promise pool', server: server.url, table: 'stripelock_leases' };
    return { place, url: server.url, stop: () => server.stop() };
  }),
  storeColumn('MongoDB', undefined, async () => {
    const server = await MongodbStandIn.start();
    const place: Place = { driver: 'mongodb', server: server.url, collection: 'stripelock_leases' };
    const url = new URL(server.url);
    url.pathname = '/stripelock_test';
    return { place, url: url.href, stop: () => server.stop() };
  }),
  storeColumn('etcd', without('etcd', hasEtcd), async () => {
    const cluster = await EtcdCluster.start(1);
    const { endpoints } = cluster;
    const hosts = endpoints.map((endpoint) => new URL(endpoint).host).join(',');
    return { place: { endpoints }, url: `etcd://${hosts}`, stop: () => cluster.stop() };
  }),
  storeColumn('DynamoDB', missingPackage, async () => {
    const server = await DynamodbStandIn.start();
    return { place: { dynamodb: server.url }, stop: () => server.stop() };
  }),
  {
    title: 'cache',
    kind: 'leases',
    missing: undefined,
    start: () => {
      const cache = new FakeCache();
      const ground = { store: cacheLeaseStore(clientOf(cache)), name: 'cache' };
      return Promise.resolve({
        ground: () => ground,
        peer: () => {
          const connection = { broken: false };
          const client = clientOf(cache);
          const breaking = new Proxy(client, {
            get(target, operation) {
              if (connection.broken) return () => Promise.reject(new Error('the connection is broken'));
              return Reflect.get(target, operation, target) as unknown;
            },
          });
          const store = cacheLeaseStore(breaking);
          return { peer: startInThread(connection), ground: { store, name: 'cache peer' } };
        },
        stop: () => undefined,
      });
    },
  },
];
