// Writes docs/options.md: every option, from the doc comments.
//
//   node scripts/docs/options.mjs           writes it
//   node scripts/docs/options.mjs --check   fails if it is not up to date

import path from 'node:path';

import * as prettier from 'prettier';
import { Application, LogLevel } from 'typedoc';

import { packageRoot } from '../addon-inputs.mjs';
import { writeOrCheck } from './generated.mjs';

const file = path.join(packageRoot, 'docs/options.md');

/** @typedef {import('typedoc').DeclarationReflection} Declaration */

/** The types with a section each, in this order, and its title. The section starts with the type's doc comment. */
const TITLES = new Map([
  ['StripedLockOptions', 'A lock'],
  ['KeyedLockOptions', 'A lock on exact keys'],
  ['ProcessLockOptions', 'A lock between processes'],
  ['LockedFileOptions', 'A file that several programs change'],
  ['AsyncAcquireOptions', 'An acquisition'],
  ['ContentionProfileOptions', 'A profile of contention'],
  ['LockOptions', 'A request of a web lock'],
  ['LockManagerOptions', 'A manager of web locks'],
  ['WarningLeaseManagerOptions', 'A manager of leases'],
  ['WithLeaseOptions', 'A lease'],
  ['LeaseWarningOptions', 'A warning before a lease is lost'],
  ['LeaseCloseOptions', 'The end of a manager of leases'],
  ['LeaderElectionOptions', 'An election'],
  ['DrainedOptions', 'The end of a lock'],
  ['MemoryLeaseStoreOptions', 'The store in memory'],
  ['FencingGateOptions', 'A fencing gate'],
  ['SqlitePathOptions', 'The SQLite store, by path'],
  ['SqliteDatabaseOptions', 'The SQLite store, on a database of yours'],
  ['RedisLeaseStoreOptions', 'The Redis store'],
  ['PostgresPoolOptions', 'The PostgreSQL store, on a pool'],
  ['PostgresClientOptions', 'The PostgreSQL store, on a client'],
  ['MysqlPoolOptions', 'The MySQL store, on a pool'],
  ['MysqlClientOptions', 'The MySQL store, on a connection'],
  ['MongodbCollectionOptions', 'The MongoDB store, in a collection'],
  ['MongodbDatabaseOptions', 'The MongoDB store, in a database'],
  ['EtcdLeaseStoreOptions', 'The etcd store'],
  ['EtcdCredentials', 'A user of etcd'],
  ['EtcdTls', 'TLS to etcd'],
  ['CacheLeaseStoreOptions', 'The store over any cache'],
]);

/** @param {readonly import('typedoc').CommentDisplayPart[]} [parts] */
function textOf(parts = []) {
  const text = parts.map((part) => (part.kind === 'inline-tag' ? `\`${part.text}\`` : part.text)).join('');
  return text.replace(/\s*\n\s*/g, ' ').replaceAll('|', '\\|');
}

/**
 * The members of an inline type.
 *
 * @param {import('typedoc').SomeType | undefined} type
 * @returns {readonly Declaration[]}
 */
function inlineMembers(type) {
  if (type?.type === 'union') return type.types.flatMap(inlineMembers);
  return type?.type === 'reflection' && !type.declaration.signatures ? (type.declaration.children ?? []) : [];
}

/**
 * The text of a type in a cell: inline types have separate rows, and type parameters are replaced.
 *
 * @param {import('typedoc').SomeType | undefined} type
 * @returns {string}
 */
function typeOf(type) {
  if (type?.type === 'union') return type.types.map(typeOf).join(' \\| ');
  if (inlineMembers(type).length > 0) return 'object';
  return (String(type) === 'M' ? 'LockMode' : String(type)).replaceAll('|', '\\|');
}

/**
 * @param {Declaration} option
 * @param {string} [prefix]
 * @returns {string[]} Rows of a table: the option, and what it consists of.
 */
function rows(option, prefix = '') {
  const name = prefix + option.name;
  const call = option.type?.type === 'reflection' ? option.type.declaration.signatures?.[0] : undefined;
  const comment = option.comment ?? option.signatures?.[0]?.comment ?? call?.comment;
  const parts = inlineMembers(option.type);
  const row = `| \`${name}\` | \`${typeOf(option.type)}\` | ${option.flags.isOptional ? '' : 'Needed. '}${textOf(comment?.summary)} |`;
  return [row, ...parts.flatMap((part) => rows(part, `${name}.`))];
}

/** @param {Declaration} type */
const optionsOf = (type) => (type.children ?? []).filter(({ type }) => String(type) !== 'undefined');

/**
 * @param {Declaration} lease
 * @returns {string[]} Rows of a table.
 */
function memberRows(lease) {
  return (lease.children ?? [])
    .filter(({ name }) => name !== 'constructor')
    .map((member) => {
      const signature = member.getSignature ?? member.signatures?.[0];
      const parameters = signature?.parameters?.map(({ name }) => name).join(', ') ?? '';
      const name = member.getSignature
        ? member.name
        : `${member.name.replace(/^\[/, '[Symbol.')}(${parameters})`;
      const type = String(signature?.type).replaceAll('|', '\\|');
      return `| \`${name}\` | \`${type}\` | ${textOf(signature?.comment?.summary)} |`;
    });
}

/** The page. */
async function optionsPage() {
  const app = await Application.bootstrap({
    entryPoints: [path.join(packageRoot, 'lib/*.ts')],
    tsconfig: path.join(packageRoot, 'tsconfig.json'),
    disableSources: true,
    sort: ['source-order'],
    logLevel: LogLevel.Error,
  });
  const project = await app.convert();
  if (project === undefined) throw new Error('lib/ does not compile');
  const exported = (project.children ?? []).flatMap((module) => module.children ?? []);
  /** @param {string} name */
  const typeNamed = (name) => {
    const found = exported.find((declaration) => declaration.name === name);
    if (found === undefined) throw new Error(`no ${name} is exported: change the sections of this script`);
    return found;
  };
  const titled = [...TITLES.keys()].map(typeNamed);
  const shown = titled.map((type) => new Set(optionsOf(type).map(({ name }) => name)));
  // Those that have only some of the options of another one need no section.
  const isPart = (/** @type {Declaration} */ type) =>
    shown.some((names) => optionsOf(type).every(({ name }) => names.has(name)));
  const others = exported.filter((type) => type.name.endsWith('Options') && !isPart(type));
  const parts = [...titled, ...others].map((type) => {
    const title = TITLES.get(type.name) ?? `\`${type.name}\``;
    const body = optionsOf(type).flatMap((option) => rows(option));
    return `## ${title}\n\n${textOf(type.comment?.summary)}\n\n| option | type | |\n| --- | --- | --- |\n${body.join('\n')}\n`;
  });
  const page = `# Options

All options, and what a \`Lease\` offers. \`npm run docs\` writes this page from the doc comments of the types. Times are
milliseconds. Options without "needed" may be missing or undefined. [Leases](leases.md#details-that-matter) and
[KeyedLock](keyed-lock.md#capacity) say how to choose.

${parts.join('\n')}
## What a lease offers

| member of \`Lease\` | type | |
| --- | --- | --- |
${memberRows(typeNamed('Lease')).join('\n')}
`;
  const config = await prettier.resolveConfig(file);
  return prettier.format(page, { ...config, filepath: file });
}

writeOrCheck(file, await optionsPage());
