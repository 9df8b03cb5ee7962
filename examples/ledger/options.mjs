// @ts-check
/** The command line: the options, their bounds, and their defaults. */
import { Command, InvalidArgumentError, Option } from 'commander';

/**
 * @typedef {object} LedgerOptions
 * @property {number} workers
 * @property {number} [processes] Instead of threads.
 * @property {number} transfers
 * @property {number} accounts
 * @property {number} stripes With processes: keys of the lock.
 * @property {number} seed
 * @property {'native' | 'javascript'} [engine]
 * @property {boolean} [hot] A hot account, and a thread that holds it for long.
 * @property {boolean} [unlocked]
 */

export const EXIT_OK = 0;
export const EXIT_FAILED = 1;
export const EXIT_USAGE = 2;

/** Defaults for processes: a transfer takes some system calls, and an audit locks all keys, one by one. */
const OF_PROCESSES = { transfers: 200_000, stripes: 64 };

const NOTES = `
Exit codes: ${EXIT_OK} all checks passed, or with --unlocked: money was lost, as it must be;
            ${EXIT_FAILED} a check failed, or with --unlocked: none did; ${EXIT_USAGE} bad options.`;

/**
 * @param {number} min
 * @param {number} max
 */
function integer(min, max) {
  return (/** @type {string} */ text) => {
    const value = /^\d+$/.test(text) ? Number(text) : NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be an integer from ${min} to ${max}.`);
  };
}

/**
 * Ends the process for --help and for bad options, after saying what is wrong with them.
 *
 * @param {readonly string[]} argv As `process.argv`.
 * @returns {LedgerOptions}
 */
export function parseOptions(argv) {
  const command = new Command('ledger')
    .description(
      'Moves money between accounts from several threads or processes under stripelock, and audits.',
    )
    .option('--workers <n>', 'threads that apply transfers', integer(1, 256), 4)
    .addOption(
      new Option('--processes <n>', 'processes that do so instead, on a file')
        .argParser(integer(1, 256))
        .conflicts(['workers', 'engine']),
    )
    .option(
      '--transfers <n>',
      `transfers to apply (with processes: ${OF_PROCESSES.transfers})`,
      integer(1, 100_000_000),
      1_500_000,
    )
    .option('--accounts <n>', 'accounts to move money between', integer(2, 1_000_000), 20_000)
    .option(
      '--stripes <n>',
      `stripes of the lock, or keys of that of processes (${OF_PROCESSES.stripes})`,
      integer(1, 1_048_576),
      1_024,
    )
    .option('--seed <n>', 'the same seed writes the same transfers', integer(0, 0xffffffff), 1)
    .addOption(
      new Option('--engine <name>', "engine of the lock (default: the library's choice)").choices([
        'native',
        'javascript',
      ]),
    )
    .addOption(
      new Option('--hot', 'plant a hot account, and a slow holder of it, to look for').conflicts('processes'),
    )
    .option('--unlocked', 'take no lock, to see the audit fail')
    .addHelpText('after', NOTES)
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? EXIT_OK : EXIT_USAGE))
    .parse(argv);
  for (const [name, value] of Object.entries(OF_PROCESSES)) {
    const isDefault = command.getOptionValueSource(name) === 'default';
    if (command.getOptionValue('processes') !== undefined && isDefault) command.setOptionValue(name, value);
  }
  return command.opts();
}
