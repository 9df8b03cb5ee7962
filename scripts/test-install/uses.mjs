// The ways in which projects use the package. Each is a separate project, which prints a line of JSON. For jest and
// vitest see test/packaging/test-runners.test.ts.

/**
 * @typedef {object} Use
 * @property {string} name
 * @property {Record<string, string>} dependencies
 * @property {Record<string, unknown>} [manifest] More of its package.json.
 * @property {Record<string, string>} files
 * @property {readonly (readonly string[])[]} commands The last prints the report.
 */

const report = `
const warnings = [];
process.on('warning', ({ code, message }) => warnings.push({ code, message }));
const print = (lock, result) => setImmediate(() => {
  const { engine } = lock;
  process.stdout.write('\\nREPORT ' + JSON.stringify({ engine, result, warnings }) + '\\n');
});
`;

/** Two threads count to 2000. `load` gives the package's exports in a worker of CommonJS. */
const counting = `
const rounds = 1000;
function count({ StripedLock }, handle, cells) {
  const lock = StripedLock.from(handle);
  for (let round = 0; round < rounds; round++) {
    lock.withLockSync(['a', 'b'], () => { const before = cells[0]; cells[0] = before + 1; });
  }
  return lock.engine;
}
`;

const main = `
${report}
${counting}
async function work() {
  const lock = new StripedLock();
  const cells = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(SELF, { workerData: { handle: lock.handle, cells } });
  const ended = new Promise((resolve, reject) => worker.once('exit', resolve).once('error', reject));
  count({ StripedLock }, lock.handle, cells);
  await ended;
  await lock.withLock('a', () => undefined);
  print(lock, cells[0]);
}
if (isMainThread) work();
else count({ StripedLock }, workerData.handle, workerData.cells);
`;

/** @type {readonly Use[]} */
export const uses = [
  {
    name: 'ESM',
    dependencies: {},
    files: {
      'main.mjs': `import { Worker, isMainThread, workerData } from 'node:worker_threads';
import { StripedLock } from 'stripelock';
const SELF = new URL(import.meta.url);
${main}`,
    },
    commands: [['node', 'main.mjs']],
  },
  {
    name: 'CommonJS',
    dependencies: {},
    files: {
      'main.cjs': `const { Worker, isMainThread, workerData } = require('node:worker_threads');
const { StripedLock } = require('stripelock');
const SELF = __filename;
${main}`,
    },
    commands: [['node', 'main.cjs']],
  },
  {
    name: 'TypeScript',
    dependencies: { typescript: '5.9.3', '@types/node': '20.19.0' },
    manifest: { type: 'module' },
    files: {
      'tsconfig.json': JSON.stringify({
        compilerOptions: {
          module: 'nodenext',
          target: 'es2023',
          lib: ['es2023', 'esnext.disposable'],
          strict: true,
          types: ['node'],
          outDir: 'out',
        },
        files: ['main.ts', 'common.cts'],
      }),
      'common.cts': `import { StripedLock } from 'stripelock';\nexport = (): string => new StripedLock().engine;\n`,
      'main.ts': `import { StripedLock, type Guard } from 'stripelock';
import { sqliteLeaseStore } from 'stripelock/sqlite';
import engineOf from './common.cjs';
const warnings: { code: string | undefined; message: string }[] = [];
process.on('warning', (warning) => warnings.push({ code: (warning as { code?: string }).code, message: warning.message }));
function write(_guard: Guard<string, 'exclusive'>): number { return 2000; }
const lock = new StripedLock({ name: typeof sqliteLeaseStore });
// @ts-expect-error a shared guard does not prove exclusive access
const wrong: (guard: Guard<string, 'shared'>) => number = write;
const result = lock.withLockSync('a', write);
if (engineOf() !== lock.engine || typeof wrong !== 'function') throw new Error('two engines');
setImmediate(() => console.log('REPORT ' + JSON.stringify({ engine: lock.engine, result, warnings })));
`,
    },
    commands: [
      ['tsc', '-p', '.'],
      ['node', 'out/main.js'],
    ],
  },
  {
    name: 'piscina',
    dependencies: { piscina: '5.3.2' },
    files: {
      'worker.mjs': `import * as stripelock from 'stripelock';
${counting}
export default ({ handle, cells }) => count(stripelock, handle, cells);
`,
      'main.mjs': `import { Piscina } from 'piscina';
import { StripedLock } from 'stripelock';
${report}
const pool = new Piscina({ filename: new URL('worker.mjs', import.meta.url).href, maxThreads: 2 });
const lock = new StripedLock();
const cells = new Int32Array(new SharedArrayBuffer(4));
const task = { handle: lock.handle, cells };
const engines = await Promise.all([pool.run(task), pool.run(task)]);
if (engines.some((engine) => engine !== 'native')) throw new Error('a worker has another engine: ' + engines);
await pool.destroy();
print(lock, cells[0]);
`,
    },
    commands: [['node', 'main.mjs']],
  },
];

/** The expected report of each use. */
export const expectedReport = { engine: 'native', result: 2000, warnings: [] };
