// @ts-check
/** The table at the end, and the verdict. */

/**
 * @typedef {object} Outcome
 * @property {import('./options.mjs').LedgerOptions} options
 * @property {import('stripelock').StripedLockStats | undefined} stats Absent: no lock was used, or one of processes.
 * @property {number} seconds From handing out the first chunk to the end of the last, the threads' start included.
 * @property {import('./audit.mjs').Audits} audits
 * @property {number} missingCents What the final balances add up to less than they should.
 * @property {number} differences Accounts that differ from the replay.
 */

/** @param {number} value */
const whole = (value) => Math.round(value).toLocaleString('en-US');

/** @param {Outcome} outcome */
export function table(outcome) {
  const { options, stats, seconds, audits, differences } = outcome;
  const { unlocked, processes } = options;
  const final =
    differences === 0
      ? 'equal to a single-threaded replay'
      : `${whole(differences)} of ${whole(options.accounts)} accounts differ from a replay`;
  const rows = [
    ['engine', unlocked ? 'none (--unlocked)' : (stats?.engine ?? 'native, between processes')],
    [processes === undefined ? 'stripes' : 'keys', unlocked ? '-' : whole(options.stripes)],
    processes === undefined ? ['workers', whole(options.workers)] : ['processes', whole(processes)],
    ['transfers', `${whole(options.transfers)} in ${seconds.toFixed(2)} s`],
    ['transfers per second', whole(options.transfers / seconds)],
    ['waits', stats ? whole(stats.contended) : '-'],
    ['audits', `${audits.passed} passed, ${audits.failed} failed`],
    ['longest wait of an audit', unlocked ? '-' : `${audits.longestWait.toFixed(1)} ms`],
    ['final balances', final],
  ];
  return rows.map(([label = '', value = '']) => `  ${label.padEnd(26)}${value}`).join('\n');
}

/**
 * @param {Outcome} outcome
 * @returns {{ ok: boolean; text: string }} `ok`: the run showed what it was meant to show.
 */
export function verdict({ options, audits, missingCents, differences }) {
  const intact = audits.failed === 0 && missingCents === 0 && differences === 0;
  const { unlocked } = options;
  if (intact && unlocked) {
    const text = 'No money was lost this time: try more --transfers or --workers, or fewer --accounts.';
    return { ok: false, text };
  }
  if (intact) return { ok: true, text: 'OK: not one cent was lost.' };

  const money = (Math.abs(missingCents) / 100).toFixed(2);
  const loss =
    missingCents === 0
      ? 'balances are wrong'
      : `${money} ${missingCents > 0 ? 'was lost' : 'appeared from nowhere'}`;
  return unlocked
    ? {
        ok: true,
        text: `As expected without the lock: ${loss}. Leave out --unlocked to see it hold.`,
      }
    : { ok: false, text: `FAILED: ${loss}.` };
}
