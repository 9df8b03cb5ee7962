// What `npm run test:hosts` tries on each host, in the order of the table. `test/programs/hosts` has a function for each.

/**
 * @typedef {object} Check
 * @property {string} name The function's name.
 * @property {string} title The row of the table.
 * @property {readonly string[]} [nodeOptions] What Node gets before the program.
 * @property {readonly string[]} [denoOptions] What Deno gets instead of every permission.
 */

/** @type {readonly Check[]} */
export const checks = [
  { name: 'modules', title: '`import` and `require`, native engine, no warning' },
  { name: 'asyncLocks', title: 'awaited locks: timeout, abort, a blocked thread behind them' },
  { name: 'syncLocks', title: 'blocking locks: timeout, deadlock refused, hand-over' },
  { name: 'severalKeys', title: 'several keys at once, all or nothing' },
  { name: 'sharedMode', title: 'shared mode across threads' },
  { name: 'workersCount', title: 'three workers count exactly, blocking and awaiting' },
  { name: 'javascriptEngine', title: 'the same on the JavaScript engine' },
  { name: 'pendingKeepsAlive', title: 'a pending `acquire` keeps the process alive, nothing else does' },
  { name: 'deadHolder', title: 'a worker ends while it holds a key: the next holder sees `abandoned`' },
  { name: 'exitedHolder', title: '… by `process.exit()` in the worker' },
  { name: 'terminatedBlocked', title: '`terminate()` ends a blocked worker' },
  { name: 'terminatedWaiter', title: '… and whenever it ends, others get the key' },
  { name: 'terminatedBusy', title: '`terminate()` ends a worker in an endless loop (no lock involved)' },
  { name: 'leases', title: 'leases in memory, across threads; fencing gate' },
  { name: 'memoryContract', title: 'leases in memory: the contract of stores' },
  { name: 'nodeSqlite', title: 'leases on `node:sqlite`: the contract of stores' },
  { name: 'bunSqlite', title: 'leases on `bun:sqlite`: the contract of stores' },
  { name: 'bunPostgres', title: "leases in PostgreSQL on Bun's `sql`: the contract of stores" },
  { name: 'processLocks', title: 'locks between processes: a killed holder, and the next sees `abandoned`' },
  { name: 'trace', title: "`trace: true` names the caller's line" },
  { name: 'traceMapped', title: '… in TypeScript, under source maps', nodeOptions: ['--enable-source-maps'] },
  {
    name: 'refusedAddon',
    title: 'the host refuses native code: JavaScript engine, with a warning that says why',
    nodeOptions: ['--permission', '--allow-fs-read=*'],
    denoOptions: ['--allow-read'],
  },
  { name: 'otherInstallation', title: 'a lock of another installation of the package: refused' },
];
