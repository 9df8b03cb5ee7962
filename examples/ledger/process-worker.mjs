// @ts-check
/** One of several processes: applies its chunks of the file, each transfer under the lock of its two accounts' branches. */
import { ProcessLock } from 'stripelock/process';
import { AccountsFile } from './accounts-file.mjs';
import { branchOf } from './processes.mjs';
import { chunks, eachTransfer, readChunk } from './transfers.mjs';

const TRANSFERS_A_CHUNK = 1_024;

/** @type {import('./processes.mjs').ProcessData} */
const data = JSON.parse(/** @type {string} */ (process.argv[2]));
const { path, transfers, accountsPath, accounts: count, processes, index, branches, lockPath } = data;
const accounts = new AccountsFile(accountsPath, count);
const lock = lockPath === undefined ? undefined : new ProcessLock({ path: lockPath, timeout: 60_000 });

let turn = 0;
for (const chunk of chunks(transfers, TRANSFERS_A_CHUNK)) {
  if (turn++ % processes !== index) continue;
  eachTransfer(readChunk(path, chunk.first, chunk.count), (from, to, cents, record) => {
    const guard = lock?.acquireSync([branchOf(from, branches), branchOf(to, branches)]);
    try {
      accounts.transfer(from, to, cents, record);
    } finally {
      guard?.release();
    }
  });
  process.send?.(chunk.count);
}
accounts.close();
await lock?.close();
process.disconnect?.();
