import { mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toolPath } from '../../scripts/large-tools.mjs';
import { PACKAGE_ROOT } from '../support/package-copy.js';
import * as installed from './installed.js';

// The types of the tarball, checked as users of different versions and settings do, and without skipLibCheck.

// A compiler on a machine that may be busy with other tests.
const LIMIT = 240_000;

let folder: string;
let env: NodeJS.ProcessEnv;
let project: string;

const inModules = (name: string): string => path.join(PACKAGE_ROOT, 'node_modules', name);
const compilers = {
  'TypeScript 5': inModules('typescript/bin/tsc'),
  'TypeScript 7': toolPath('typescript7/bin/tsc'),
};

/** Uses all entry points; every line that is marked as an error must be one. */
const source = `
  import { LeaseManager, LockTimeoutError, StripedLock, type Guard } from 'stripelock';
  import { observe } from 'stripelock/metrics/opentelemetry';
  import { register } from 'stripelock/metrics/prom-client';
  import { mysqlLeaseStore } from 'stripelock/mysql';
  import { postgresLeaseStore } from 'stripelock/postgres';
  import { redisLeaseStore } from 'stripelock/redis';
  import { sqliteLeaseStore } from 'stripelock/sqlite';
  import { FixedClock, leaseStoreContract } from 'stripelock/testing';
  import { LockManager, locks, type Lock, type LockInfo } from 'stripelock/web-locks';

  const lock = new StripedLock({ name: 'typed' });
  const exclusive: Guard<string, 'exclusive'> = lock.acquireSync('a');
  // @ts-expect-error a shared guard does not prove exclusive access
  const wrong: Guard<string, 'exclusive'> = lock.acquireSync('a', { mode: 'shared' });
  // @ts-expect-error no such option exists
  new StripedLock({ stripe: 3 });
  // @ts-expect-error a key is not an object
  lock.tryAcquire({});
  exclusive[Symbol.dispose]();
  export async function leases() {
    const store = redisLeaseStore({ client: {} });
    const inTable = postgresLeaseStore({ pool: {}, table: 'leases' });
    // @ts-expect-error either
    postgresLeaseStore({ pool: {}, client: {} });
    // @ts-expect-error either
    mysqlLeaseStore({ pool: {}, client: {} });
    await inTable.close?.();
    // @ts-expect-error a path is a string
    sqliteLeaseStore({ path: 3 });
    const manager = new LeaseManager({ store, clock: new FixedClock() });
    const lease = await manager.acquire('key', { timeout: 5 });
    const aborted: boolean = lease.signal.aborted;
    // @ts-expect-error the signal of a lease has no such member
    lease.signal.abort();
    // @ts-expect-error a signal is no number
    await manager.acquire('key', { signal: 5 });
    await lock.withLock('key', () => aborted);
    // @ts-expect-error what is missing
    leaseStoreContract({}, 'store', () => store);
  }
  export async function webLocks(): Promise<LockInfo[]> {
    const length: number = await locks.request('a', async (lock) => lock?.name.length ?? 0);
    const own = LockManager.from(new LockManager({ name: 'own' }).handle);
    await own.request('a', { mode: 'shared', timeout: 5 }, (lock: Lock | null) => length);
    // @ts-expect-error a lock cannot be constructed
    new Lock();
    // @ts-expect-error no such mode exists
    await locks.request('a', { mode: 'write' }, () => undefined);
    return (await locks.query()).held;
  }
  export function metrics(meter: Parameters<typeof observe>[0], registry: Parameters<typeof register>[0]) {
    // @ts-expect-error a meter creates instruments
    observe({});
    // @ts-expect-error a registry is not a meter
    observe(registry);
    const ends: (() => void)[] = [observe(meter), register(registry)];
    return ends;
  }
  export const all = [wrong, LockTimeoutError, new LockTimeoutError('', ['a'], 1, 2, []).keys];
`;

/** With the signals of a library that has them. */
const withSignals = `${source}
  export const signal: AbortSignal = (await leases2()).signal;
  async function leases2() {
    await lock.acquire('key', { signal: AbortSignal.timeout(5) });
    return new LeaseManager().acquire('key', { signal: new AbortController().signal });
  }
`;

/** A program that is written against a browser's types. */
const withBrowser = `
  import { locks } from 'stripelock/web-locks';

  const manager: globalThis.LockManager = locks;
  export async function use(own: Pick<globalThis.LockManager, 'request' | 'query'>): Promise<string[]> {
    const callback: LockGrantedCallback<Promise<string>> = async (lock: globalThis.Lock | null) => lock?.mode ?? 'none';
    const options: globalThis.LockOptions = { mode: 'shared', signal: AbortSignal.timeout(5) };
    const mode: string = await own.request('a', options, callback);
    const state: globalThis.LockManagerSnapshot = await own.query();
    return [mode, ...(state.held ?? []).map(({ name }) => name ?? '')];
  }
  export const used = [use(manager), use(locks), locks.request('a', { ifAvailable: true }, (lock: globalThis.Lock | null) => lock)];
`;

type Options = Readonly<Record<string, unknown>>;

/** How modules are found, and in what they are written. */
const resolutions: Record<string, Options> = {
  nodenext: { module: 'nodenext' },
  node16: { module: 'node16' },
  bundler: { module: 'esnext', moduleResolution: 'bundler' },
  'bundler, with either kind of module': { module: 'preserve', moduleResolution: 'bundler' },
  node10: { module: 'commonjs', moduleResolution: 'node10' },
};

beforeAll(async () => {
  ({ folder, project, env } = await installed.newProject('types'));
  for (const extension of ['mts', 'cts', 'ts']) {
    await writeFile(path.join(project, `plain.${extension}`), source);
  }
  await writeFile(path.join(project, 'signals.mts'), withSignals);
  await writeFile(path.join(project, 'browser.mts'), withBrowser);
  await mkdir(path.join(project, 'node_modules', '@types'));
  await symlink(inModules('@types/node'), path.join(project, 'node_modules/@types/node'), 'junction');
  await symlink(inModules('undici-types'), path.join(project, 'node_modules/undici-types'), 'junction');
}, LIMIT);

afterAll(() => rm(folder, { recursive: true, force: true }));

/** The output of the compiler. */
async function check(compiler: string, options: Options, files: readonly string[]): Promise<string> {
  const config = {
    compilerOptions: { noEmit: true, strict: true, skipLibCheck: false, target: 'es2022', ...options },
    files,
  };
  await writeFile(path.join(project, 'tsconfig.json'), JSON.stringify(config));
  const { stdout, stderr } = await installed.run(process.execPath, [compiler], project, env);
  return `${stdout}${stderr}`;
}

for (const [version, compiler] of Object.entries(compilers)) {
  describe(version, () => {
    for (const [name, options] of Object.entries(resolutions)) {
      // TypeScript 7 no longer has it.
      if (version === 'TypeScript 7' && name === 'node10') continue;
      it(
        `compiles with ${name}, with only the language's own types`,
        async () => {
          // node10 knows neither of the others.
          const files = ['plain.ts', ...(name === 'node10' ? [] : ['plain.mts', 'plain.cts'])];
          expect(await check(compiler, { ...options, lib: ['es2022'], types: [] }, files)).toBe('');
        },
        LIMIT,
      );
    }

    it.each([
      ['Node', { lib: ['es2022'], types: ['node'] }],
      ['browsers', { lib: ['es2022', 'dom'], types: [] }],
      ['both', { lib: ['es2022', 'dom'], types: ['node'] }],
    ])(
      'knows the signals of %s',
      async (_library, options) => {
        expect(await check(compiler, { ...resolutions['nodenext'], ...options }, ['signals.mts'])).toBe('');
      },
      LIMIT,
    );

    it(
      'compiles a program that is written against the LockManager of browsers',
      async () => {
        const options = {
          ...resolutions['nodenext'],
          lib: ['es2022', 'dom'],
          types: [],
          exactOptionalPropertyTypes: true,
        };
        expect(await check(compiler, options, ['browser.mts'])).toBe('');
      },
      LIMIT,
    );

    it('reports what is wrong: a check that cannot fail shows nothing', async () => {
      await writeFile(
        path.join(project, 'wrong.mts'),
        "import { StripedLok } from 'stripelock';\nStripedLok();\n",
      );
      const options = { ...resolutions['nodenext'], types: [] };
      expect(await check(compiler, options, ['wrong.mts'])).toMatch(/wrong\.mts.*error TS2724/);
    });
  });
}
