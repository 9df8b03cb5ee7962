// What a host cannot do, in one place. The table shows it, and `npm run test:hosts` fails if a host does more than
// this says, or less.

/**
 * @typedef {object} Limitation
 * @property {string} host
 * @property {string} check
 * @property {string} cell What the table shows.
 * @property {RegExp} fails What the check says. Another failure is not this limitation.
 * @property {string} because For the notes below the table.
 */

const onlyOnBun = {
  check: 'bunSqlite',
  cell: '–',
  fails: /bun:/,
  because: '`bun:sqlite` is a module of Bun alone.',
};
const denoThreads =
  'Deno ends a worker only when it is back in its event loop: not one that is busy, and not one that is blocked, whether by a lock or by `Atomics.wait`. The blocked thread stays in its queue until its timeout, or until it is granted the key. When it gets back to its event loop it ends, and what it still holds is freed. Use finite timeouts, which are the default.';

/** @type {readonly Limitation[]} */
export const limitations = [
  {
    host: 'Node 20',
    check: 'nodeSqlite',
    cell: 'no',
    fails: /has no node:sqlite/,
    because: 'Node 20 has no `node:sqlite`. Pass a `better-sqlite3` database.',
  },
  ...['Node 20', 'Node 22', 'Node 24', 'Node 26', 'Deno 2.9'].map((host) => ({ host, ...onlyOnBun })),
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
