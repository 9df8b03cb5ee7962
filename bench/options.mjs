import { Command, InvalidArgumentError } from 'commander';

const NOTES = `
Without options it takes about a quarter of an hour. What counts are ratios within one run.
Exit code 1 when a subject failed or miscounted; a missed target is no failure.`;

/**
 * @typedef {object} BenchOptions
 * @property {string} [only]
 * @property {boolean} [quick]
 * @property {boolean} [full]
 * @property {boolean} [smoke]
 * @property {boolean} [list]
 * @property {string} [against]
 * @property {number} [rounds]
 * @property {number} [node]
 */

/** @param {string} text */
function major(text) {
  if (/^\d+$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a major version, as in 24.');
}

/** @param {string} text */
function count(text) {
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a count, as in 7.');
}

/**
 * @param {readonly string[]} argv
 * @returns {BenchOptions}
 */
export function parseOptions(argv) {
  const command = new Command('bench')
    .description('Compares stripelock with what people use today.')
    .option('--only <text>', 'only workloads whose group or name contains this text')
    .option('--quick', 'a few minutes for everything; rough figures')
    .option('--full', 'also the whole product of the contended sync workloads; more than an hour')
    .option('--smoke', 'each workload for a moment, to see that it works; no figures')
    .option('--list', 'name the workloads and who can do them')
    .option(
      '--against <folder>',
      "compare this checkout's build with that of another one: ratios, no targets",
    )
    .option('--rounds <count>', 'how often each subject is measured', count)
    .option('--node <major>', 'run under this version of Node, by the npm package `node`', major)
    .addHelpText('after', NOTES)
    .parse([...argv]);
  /** @type {BenchOptions} */
  const options = command.opts();
  const efforts = /** @type {const} */ (['quick', 'full', 'smoke']).filter((name) => options[name]);
  if (efforts.length > 1) command.error(`choose one of ${efforts.map((name) => `--${name}`).join(', ')}`);
  return options;
}
