// @ts-check
/**
 * Threads of a pool move money between accounts under a two-key lock, while the main thread audits
 * the books. See README.md beside this file.
 */
import { StripedLock } from 'stripelock';
import { Accounts } from './accounts.mjs';
import { auditDuring, noAudits } from './audit.mjs';
import { writeTransfers } from './generator.mjs';
import { EXIT_FAILED, EXIT_OK, parseOptions } from './options.mjs';
import { applyWithPool } from './pool.mjs';
import { startProgress } from './progress.mjs';
import { replay } from './replay.mjs';
import { table, verdict } from './report.mjs';
import { temporaryFile } from './temporary-file.mjs';

/** @typedef {import('./options.mjs').LedgerOptions} LedgerOptions */

/** @param {LedgerOptions} options */
function makeLock({ unlocked, stripes, engine }) {
  if (unlocked) return undefined;
  return new StripedLock({ name: 'ledger', stripes, ...(engine && { engine }) });
}

/**
 * @param {string} path
 * @param {Accounts} accounts
 * @param {StripedLock | undefined} lock
 * @param {LedgerOptions} options
 */
async function applyAndAudit(path, accounts, lock, options) {
  const { count, memory } = accounts;
  const audits = noAudits();
  const progress = startProgress(options.transfers);
  try {
    const work = applyWithPool(options, { path, accounts: count, memory, handle: lock?.handle }, (applied) =>
      progress.update(applied, audits.passed + audits.failed),
    );
    const [seconds] = await Promise.all([work, auditDuring(accounts, lock, work, audits)]);
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
  const lock = makeLock(options);
  const path = temporaryFile('transfers');
  const { transfers, accounts: count, seed } = options;
  console.error(`writing ${transfers} transfers between ${count} accounts (seed ${seed})`);
  writeTransfers(path, options);

  const accounts = new Accounts(count);
  const { seconds, audits } = await applyAndAudit(path, accounts, lock, options);

  console.error('replaying them on a single thread');
  const differences = accounts.differencesFrom(replay(path, options));
  const missingCents = accounts.expectedTotal - accounts.total();
  const outcome = { options, stats: lock?.stats(), seconds, audits, missingCents, differences };
  const { ok, text } = verdict(outcome);
  console.log(`${table(outcome)}\n\n${text}`);
  return ok ? EXIT_OK : EXIT_FAILED;
}

process.exitCode = await main(parseOptions(process.argv));
