// Prints, for each entry point that chooses an engine, its engine or the code of its error.
//
//   chosen-engine.mjs <installation> [without-env]   without-env: reading the environment throws, as in Deno
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [installation, environment] = process.argv.slice(2);
if (environment === 'without-env') {
  const denied = new Proxy(process.env, {
    get(variables, name) {
      if (String(name).startsWith('STRIPELOCK_')) throw new Error('NotCapable');
      return Reflect.get(variables, name);
    },
  });
  Object.defineProperty(process, 'env', { value: denied });
}

const load = (name) => import(pathToFileURL(path.join(installation, 'dist', name)).href);
const { KeyedLock, MemoryLeaseStore, StripedLock } = await load('index.mjs');
const { LockManager } = await load('web-locks.mjs');

const attempts = {
  StripedLock: () => new StripedLock().engine,
  KeyedLock: () => new KeyedLock().engine,
  'KeyedLock, asked for JavaScript': () => new KeyedLock({ engine: 'javascript' }).engine,
  MemoryLeaseStore: () => new MemoryLeaseStore().constructor.name,
  LockManager: () => new LockManager().constructor.name,
};
for (const [name, attempt] of Object.entries(attempts)) {
  let outcome;
  try {
    outcome = attempt();
  } catch (error) {
    outcome = `${error.name} ${error.code}: ${error.message.split('\n')[0]}`;
  }
  console.log(`${name}: ${outcome}`);
}
