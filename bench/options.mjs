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
 * @property {number} [node]
 */

function major(text) {
  if (/^\d+$/.test(text)) return Number(text);
  throw new InvalidArgumentError('It must be a major version, as in 24.');
}

/** @returns {BenchOptions} */
export function parseOptions(argv) {
  const command = new Command('bench')
    .description('Compares stripelock with what people use today.')
    .option('--only <text>', 'only workloads whose group or name contains this text')
    .option('--quick', 'a few minutes for everything; rough figures')
    .option('--full', 'also the whole product of the contended sync workloads; more than an hour')
    .option('--smoke', 'each workload for a moment, to see that it works; no figures')
    .option('--list', 'name the workloads and who can do them')
    .option('--node <major>', 'run under this version of Node, by the npm package `node`', major)
    .addHelpText('after', NOTES)
    .parse(argv);
  const options = command.opts();
  const efforts = ['quick', 'full', 'smoke'].filter((name) => options[name]);
  if (efforts.length > 1) command.error(`choose one of ${efforts.map((name) => `--${name}`).join(', ')}`);
  return options;
}
