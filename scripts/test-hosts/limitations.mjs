// The known limitations of hosts. The table shows them, and `npm run test:hosts` fails if a host does more, or less, than this list
// says.

/**
 * @typedef {object} Limitation
 * @property {string} host
 * @property {string} check
 * @property {string} cell Shown in the table.
 * @property {RegExp} fails Matches the check's message. Any other failure is reported.
 * @property {string} because A note below the table.
 */

const onlyOnBun = ['bunSqlite', 'bunPostgres'].map((check) => ({
  check,
  cell: '–',
  fails: /bun/,
  because: 'Only Bun has `bun:sqlite` and `sql`.',
}));
const denoThreads =
  "Deno ends a worker only when the worker's event loop runs: not while it computes, and not while it blocks, whether on a lock or in `Atomics.wait`. A blocked thread stays in its queue until it times out or is granted the key. When it returns to its event loop, the thread ends, and its keys are freed. Use finite timeouts, which are the default.";

/** @type {readonly Limitation[]} */
export const limitations = [
  {
    host: 'Node 20',
    check: 'nodeSqlite',
    cell: 'no',
    fails: /has no node:sqlite/,
    because: 'Node 20 has no `node:sqlite`. Pass a `better-sqlite3` database.',
  },
  ...['Node 20', 'Node 22', 'Node 24', 'Node 26', 'Deno 2.9'].flatMap((host) =>
    onlyOnBun.map((limitation) => ({ host, ...limitation })),
  ),
  {
    host: 'Bun 1.4',
    check: 'refusedAddon',
    cell: '–',
    fails: /the host has loaded the addon/,
    because: 'Bun has no permissions.',
  },
  {
    host: 'Deno 2.9',
    check: 'terminatedBlocked',
    cell: 'no',
    fails: /a terminated thread still waits/,
    because: denoThreads,
  },
  {
    host: 'Deno 2.9',
    check: 'terminatedBusy',
    cell: 'no',
    fails: /a terminated thread still runs/,
    because: denoThreads,
  },
];
