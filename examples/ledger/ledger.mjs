// @ts-check
/**
 * Threads of a pool, or processes, move money between accounts under a two-key lock, while the main thread audits
 * the books. See README.md beside this file.
 */
import { StripedLock } from 'stripelock';
import { ProcessLock } from 'stripelock/process';
import { AccountsFile } from './accounts-file.mjs';
import { Accounts } from './accounts.mjs';
import { auditDuring, noAudits } from './audit.mjs';
import { writeTransfers } from './generator.mjs';
import { EXIT_FAILED, EXIT_OK, parseOptions } from './options.mjs';
import { applyWithPool } from './pool.mjs';
import { applyWithProcesses } from './processes.mjs';
import { startProgress } from './progress.mjs';
import { replay } from './replay.mjs';
import { table, verdict } from './report.mjs';
import { temporaryFile } from './temporary-file.mjs';

/** @typedef {import('./options.mjs').LedgerOptions} LedgerOptions */

/**
 * Threads that share memory.
 *
 * @param {string} path
 * @param {LedgerOptions} options
 */
async function withThreads(path, options) {
  const { unlocked, stripes, engine, accounts: count, hot = false } = options;
  const lock = unlocked ? undefined : new StripedLock({ name: 'ledger', stripes, ...(engine && { engine }) });
  const accounts = new Accounts(count);
  const { memory } = accounts;
  const books = { look: () => accounts, lock, keys: count };
  const outcome = await applyAndAudit(options, books, (onProgress) =>
    applyWithPool(options, { path, accounts: count, memory, handle: lock?.handle, hot }, onProgress),
  );
  return { ...outcome, stats: lock?.stats(), accounts };
}

/**
 * Processes that share a file.
 *
 * @param {string} path
 * @param {LedgerOptions & { processes: number }} options
 */
async function withProcesses(path, options) {
  const { unlocked, transfers, processes, accounts: count, stripes: branches } = options;
  const [accountsPath, lockPath] = [`${path}.accounts`, unlocked ? undefined : `${path}.lock`];
  const file = AccountsFile.create(accountsPath, count);
  const lock = lockPath === undefined ? undefined : new ProcessLock({ path: lockPath, timeout: 60_000 });
  const books = { look: () => file.load(), lock, keys: branches };
  const data = { path, transfers, accountsPath, accounts: count, processes, branches, lockPath };
  const outcome = await applyAndAudit(options, books, (onProgress) => applyWithProcesses(data, onProgress));
  const accounts = file.load();
  file.close();
  await lock?.close();
  return { ...outcome, stats: undefined, accounts };
}

/**
 * @param {LedgerOptions} options
 * @param {import('./audit.mjs').Books} books
 * @param {(onProgress: (applied: number) => void) => Promise<number>} apply Resolves to the seconds it took.
 */
async function applyAndAudit(options, books, apply) {
  const audits = noAudits();
  const progress = startProgress(options.transfers);
  try {
    const work = apply((applied) => progress.update(applied, audits.passed + audits.failed));
    const [seconds] = await Promise.all([work, auditDuring(books, work, audits)]);
    return { seconds, audits };
  } finally {
    progress.stop();
  }
}

/**
 * @param {LedgerOptions} options
 * @returns {Promise<number>} The exit code.
 */
async function main(options) {
  const path = temporaryFile('transfers');
  const { transfers, accounts: count, seed, processes } = options;
  console.error(`writing ${transfers} transfers between ${count} accounts (seed ${seed})`);
  writeTransfers(path, options);

  const { accounts, ...rest } =
    processes === undefined
      ? await withThreads(path, options)
      : await withProcesses(path, { ...options, processes });

  console.error('replaying them on a single thread');
  const differences = accounts.differencesFrom(replay(path, options));
  const missingCents = accounts.expectedTotal - accounts.total();
  const outcome = { ...rest, options, missingCents, differences };
  const { ok, text } = verdict(outcome);
  console.log(`${table(outcome)}\n\n${text}`);
  return ok ? EXIT_OK : EXIT_FAILED;
}

process.exitCode = await main(parseOptions(process.argv));
