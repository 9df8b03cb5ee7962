// A process that takes leases, counts under them, and writes down what happened. Its settings are its argument; what it
// counts is at the other end of its IPC channel.

import { LeaseManager } from 'stripelock';
import { redisLeaseStore } from 'stripelock/redis';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { redisClients } from '../../support/redis-clients.mjs';
import { sqliteDrivers } from '../../support/sqlite-drivers.mjs';
import { below, randomFrom } from '../../workers/random.mjs';
import { now } from './clock.mjs';
import { History } from './history.mjs';
import { plant, redisBackdoor, sqliteBackdoor } from './planted.mjs';

const settings = JSON.parse(process.argv[2]);
const { name, seed, keys, ttl, renew, steps, step, gap, blockFor, waiters } = settings;
const history = new History(settings.history, name);
const random = randomFrom(seed);
let stopping = false;

process.on('disconnect', () => process.exit());
process.on('unhandledRejection', (error) => {
  history.add({ op: 'crashed', error: String(error?.stack) });
  process.exit(1);
});

const answers = new Map();
let asked = 0;
process.on('message', (message) => {
  if (message === 'stop') stopping = true;
  else answers.get(message.id)?.(message.result);
});
function ask(request) {
  const id = ++asked;
  process.send({ ...request, token: String(request.token), id });
  return new Promise((resolve) => answers.set(id, resolve)).finally(() => answers.delete(id));
}

async function openStore() {
  if (settings.store === 'sqlite') {
    const database = sqliteDrivers.at(settings.driver % sqliteDrivers.length).open(settings.file);
    const close = () => database.close();
    return {
      store: sqliteLeaseStore({ database, timeout: settings.timeout }),
      backdoor: () => sqliteBackdoor(database),
      close,
    };
  }
  const names = Object.keys(redisClients);
  const connect = redisClients[names[settings.driver % names.length]];
  const { client, close } = await connect(settings.port);
  const backdoor = () => redisBackdoor(settings.serverPort);
  return { store: redisLeaseStore({ client, timeout: settings.timeout }), backdoor, close };
}

/** Replies of a store in this process's own file have nothing that could hold them up on their way. */
function delayReplies(store, milliseconds) {
  const tryAcquire = async (...request) => {
    const token = await store.tryAcquire(...request);
    await delay(milliseconds);
    return token;
  };
  const rest = {
    renew: store.renew.bind(store),
    release: store.release.bind(store),
    inspect: store.inspect.bind(store),
  };
  return { ...rest, tryAcquire };
}

/** Whether the lease was certainly held at a moment that has just passed. */
function isHeld({ key, token, held }, at) {
  if (held) history.add({ op: 'held', key, token, at });
  return held;
}

async function countUnder(lease) {
  const { key, token } = lease;
  for (let i = 0; i < steps; i++) {
    if (!isHeld(lease, now())) return;
    const value = await ask({ op: 'read', key, token });
    const accepted = value !== undefined && (await ask({ op: 'write', key, token, value: value + 1 }));
    if (accepted) history.add({ op: 'write', key, token, value: value + 1 });
    else history.add({ op: 'refused', key, token });
    if (!accepted) return;
    if (blockFor > 0 && below(random, 4) === 0) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, below(random, blockFor));
    }
    if (!isHeld(lease, now())) return;
    await delay(below(random, 2 * step));
    isHeld(lease, now());
  }
}

async function turn(manager, timeout) {
  const key = keys[below(random, keys.length)];
  const call = now();
  let lease;
  try {
    lease = await manager.acquire(key, { timeout });
  } catch (error) {
    const late = now() - call;
    history.add({ op: 'failed', key, code: error.code, cause: error.cause?.code, late });
    return;
  }
  history.add({ op: 'acquire', key, token: lease.token, call, return: now() });
  await countUnder(lease);
  const asked = now();
  const freed = await lease.release().catch((error) => error.code);
  history.add({ op: 'release', key, token: lease.token, call: asked, return: now(), freed });
}

const opened = await openStore();
let clock;
let { store } = opened;
if (settings.store === 'sqlite' && settings.delay > 0) store = delayReplies(store, settings.delay);
if (settings.plant) ({ store, clock } = plant(settings.plant, store, opened.backdoor));
const manager = new LeaseManager({
  store,
  ttl,
  renew,
  backoff: { initial: 5, max: settings.backoff },
  ...(clock && { clock }),
});
process.send({ ready: true });

if (waiters > 0) {
  await Promise.all(Array.from({ length: waiters }, () => turn(manager, settings.patience)));
} else {
  while (!stopping) {
    await turn(manager, settings.patience);
    await delay(below(random, 2 * gap));
  }
}
await manager.close().catch(() => undefined);
await opened.store.close();
opened.close();
process.disconnect();
