import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { parse, UsageError } from '../../unbundled/command/arguments.js';
import { textOf } from '../docs/pages.js';
import { Place } from './started.js';

// What `stripelock` says to arguments that it cannot use.

let place: Place;
beforeEach(() => {
  place = new Place();
});
afterEach(() => place.remove());

it.each([
  [[], 'name a subcommand: run, inspect or leases'],
  [['walk'], '"walk" is not a subcommand: use run, inspect or leases'],
  [['run'], 'name a command after --'],
  [['run', '--key', 'a', '--'], 'name a command after --'],
  [['run', 'make'], "Unexpected argument 'make'"],
  [['run', '--speed', '--', 'true'], "Unknown option '--speed'"],
  [['run', '--key', '--', 'true'], "Option '--key <value>' argument missing"],
  [['run', '--shared=1', '--', 'true'], "Option '--shared' does not take an argument"],
  [
    ['run', '--timeout', 'soon', '--', 'true'],
    '--timeout must be a time such as 500ms, 30s or 5m, not "soon"',
  ],
  [['run', '--timeout', '1d', '--', 'true'], '--timeout must be'],
  [['run', '--timeout=-1', '--', 'true'], '--timeout must be'],
  [['run', '--timeout', '1s', '--no-wait', '--', 'true'], 'choose one of --timeout and --no-wait'],
  [['run', '--conflict-exit-code', '256', '--', 'true'], 'must be a number from 0 to 255, not "256"'],
  ...['0', '257', '1.5', 'many', ''].map((limit): [string[], string] => [
    ['run', `--limit=${limit}`, '--', 'true'],
    `--limit must be a number from 1 to 256, not ${JSON.stringify(limit)}`,
  ]),
  [['run', '--limit', '2', '--shared', '--', 'true'], 'choose one of --shared and --limit'],
  [
    ['run', '--store', 'sqlite:a', '--', 'true'],
    'name the key of the lease by --key, or a lock file by --path',
  ],
  [['run', '--store', 'sqlite:a', '--key', '', '--', 'true'], 'name the key of the lease by --key'],
  [['run', '--store=', '--key', 'a', '--', 'true'], '--store is empty'],
  [
    ['run', '--store', 'sqlite:a', '--path', 'b', '--key', 'a', '--', 'true'],
    'choose one of --path and --store',
  ],
  [
    ['run', '--store', 'sqlite:a', '--key', 'a', '--shared', '--limit', '2', '--', 'true'],
    'choose one of --shared and --limit',
  ],
  [
    ['run', '--store', 'sqlite:a', '--key', 'a', '--shared', '--min-hold', '1s', '--', 'true'],
    '--min-hold is not for --shared',
  ],
  [
    ['run', '--store', 'sqlite:a', '--access', 'all', '--key', 'a', '--', 'true'],
    '--access is for a lock file',
  ],
  ...['ttl', 'min-hold', 'grace'].flatMap((name): [string[], string][] => [
    [['run', `--${name}`, '1s', '--', 'true'], `--${name} needs a lease: name its store by --store`],
    [
      ['run', '--store', 'sqlite:a', '--key', 'a', `--${name}`, 'soon', '--', 'true'],
      `--${name} must be a time`,
    ],
  ]),
  [['run', '--on-loss', 'SIGINT', '--', 'true'], '--on-loss needs a lease'],
  [
    ['run', '--store', 'sqlite:a', '--key', 'a', '--on-loss', 'SIGNAL', '--', 'true'],
    '--on-loss must be a signal',
  ],
  [['run', '--store', 'sqlite:a', '--key', 'a', '--ttl', '10ms', '--', 'true'], '--ttl must be at least 1s'],
  [
    ['run', '--store', 'sqlite:a', '--key', 'a', '--limit', '1001', '--', 'true'],
    '--limit must be a number from 1 to 1000, not "1001"',
  ],
  [['run', '--timeout', '1s', '--if-available', '--', 'true'], 'choose one of --timeout and --no-wait'],
  [['inspect', '--limit', '0'], '--limit must be a number from 1 to 256, not "0"'],
  [['inspect', '--key', 'a'], "Unknown option '--key'"],
  [['inspect', '--', 'true'], "Unexpected argument 'true'"],
  [['leases'], 'name what to do with leases: list, inspect or revoke'],
  [['leases', 'list'], 'name the store by --store, or by STRIPELOCK_STORE'],
  [['leases', 'list', '--store', 'sqlite:a', 'key'], 'leases list takes no key'],
  [
    ['leases', 'list', '--store', 'sqlite:a', '--limit', '0'],
    '--limit must be a number from 1 to 10000, not "0"',
  ],
  [['leases', 'list', '--store', 'sqlite:a', '--yes'], "Unknown option '--yes'"],
  [['leases', 'inspect', '--store', 'sqlite:a'], 'leases inspect takes one key'],
  [['leases', 'revoke', '--store', 'sqlite:a', 'a', 'b'], 'leases revoke takes one key'],
  [['leases', 'revoke', '--store', 'sqlite:a', '--prefix', 'a', 'b'], "Unknown option '--prefix'"],
])('refuses %j', (args, message) => {
  expect(() => parse(args)).toThrow(UsageError);
  expect(() => parse(args)).toThrow(message);
});

it('says what is wrong, and where that is explained', async () => {
  const { code, stdout, stderr } = await place.stripelock('run', '--speed', '--', 'true').ended;
  expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
  expect(stderr).toBe("stripelock: Unknown option '--speed'; stripelock --help explains it\n");
});

it.each([['--help'], ['-h'], ['help'], ['run', '--help'], ['run', '-h'], ['inspect', '--help']])(
  'explains itself: %s %s',
  (...args) => {
    expect(parse(args)).toEqual({ what: 'help' });
  },
);

it('explains itself on stdout', async () => {
  const { code, stdout, stderr } = await place.stripelock('run', '--help').ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^Usage:\n[^]*--path[^]*--key[^]*--shared[^]*--timeout[^]*--no-wait/);
  expect(stdout).toMatch(/--conflict-exit-code[^]*--verbose[^]*Exit codes of run:/);
});

it('prints the version of the package', async () => {
  const { version } = JSON.parse(textOf('package.json')) as { version: string };
  const { code, stdout, stderr } = await place.stripelock('--version').ended;
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
});

it('leaves options of the command to the command', async () => {
  const { stdout } = await place.run('--', 'echo', '--help', '--', '--path').ended;
  expect(stdout).toBe('--help -- --path\n');
});

it('says why a file cannot be a lock, and runs nothing', async () => {
  const file = path.join(place.folder, 'text');
  writeFileSync(file, 'what somebody wrote\n'.repeat(1000));
  for (const given of [file, place.folder, path.join(file, 'below')]) {
    const { code, stdout, stderr } = await place.stripelock('run', '--path', given, '--', 'echo', 'ran')
      .ended;
    expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
    expect(stderr).toMatch(/^stripelock: .{10,}\n$/);
  }
});
