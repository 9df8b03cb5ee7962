// Writes docs/options.md: every option, from the doc comments.
//
//   node scripts/docs/options.mjs

import { writeFileSync } from 'node:fs';
import path from 'node:path';

import * as prettier from 'prettier';
import { Application, LogLevel } from 'typedoc';

import { isMain, packageRoot } from '../addon-inputs.mjs';

export const file = path.join(packageRoot, 'docs/options.md');

/**
 * @typedef {import('typedoc').DeclarationReflection} Declaration
 *
 * @typedef {object} Section
 * @property {string} type The type that has all its options.
 * @property {string} title
 * @property {string} [text] Default: what the doc comment of the type says.
 * @property {readonly string[]} [parts] Types that have some of these options.
 */

/** @type {readonly Section[]} */
const sections = [
  { type: 'StripedLockOptions', title: 'A lock' },
  { type: 'KeyedLockOptions', title: 'A lock on exact keys' },
  {
    type: 'AsyncAcquireOptions',
    title: 'An acquisition',
    text: 'For `acquire` and `withLock`; without `signal` for `acquireSync` and `withLockSync`; `mode` alone for `tryAcquire`.',
    parts: ['AcquireOptions'],
  },
  { type: 'LockOptions', title: 'A request of a web lock' },
  { type: 'LockManagerOptions', title: 'A manager of web locks' },
  {
    type: 'WarningLeaseManagerOptions',
    title: 'A manager of leases',
    text: 'For `new LeaseManager(options)`. [Leases](leases.md#details-that-matter) says how to choose.',
    parts: ['LeaseManagerOptions'],
  },
  {
    type: 'WithLeaseOptions',
    title: 'A lease',
    text: 'For `withLease`; without `ifAvailable` for `acquire`; without `timeout` and `signal`, too, for `tryAcquire`.',
    parts: ['AcquireLeaseOptions', 'TryAcquireLeaseOptions', 'LeaseOptions'],
  },
  { type: 'LeaseWarningOptions', title: 'A warning before a lease is lost' },
  { type: 'MemoryLeaseStoreOptions', title: 'The store in memory' },
  { type: 'FencingGateOptions', title: 'A fencing gate' },
  { type: 'SqlitePathOptions', title: 'The SQLite store, by path', parts: ['SqliteLeaseStoreOptions'] },
  { type: 'SqliteDatabaseOptions', title: 'The SQLite store, on a database of yours' },
  { type: 'RedisLeaseStoreOptions', title: 'The Redis store' },
  {
    type: 'PostgresPoolOptions',
    title: 'The PostgreSQL store, on a pool',
    parts: ['PostgresLeaseStoreOptions'],
  },
  { type: 'PostgresClientOptions', title: 'The PostgreSQL store, on a client' },
  {
    type: 'MongodbCollectionOptions',
    title: 'The MongoDB store, in a collection',
    parts: ['MongodbLeaseStoreOptions'],
  },
  { type: 'MongodbDatabaseOptions', title: 'The MongoDB store, in a database' },
  { type: 'EtcdLeaseStoreOptions', title: 'The etcd store' },
  { type: 'EtcdCredentials', title: 'A user of etcd' },
  { type: 'EtcdTls', title: 'TLS to etcd' },
  { type: 'CacheLeaseStoreOptions', title: 'The store over any cache' },
];

/** What the types of options are called. */
const OPTIONS = /Options$/;

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
 * A type as a cell shows it: inline types have rows of their own, and a type parameter says nothing.
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
export async function optionsPage() {
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
  const named = new Set(sections.flatMap(({ type, parts = [] }) => [type, ...parts]));
  const others = exported
    .filter(({ name }) => OPTIONS.test(name) && !named.has(name))
    .map(({ name }) => ({ type: name, title: `\`${name}\`` }));
  /** @type {readonly Section[]} */
  const all = [...sections, ...others];
  const parts = all.map(({ type, title, text }) => {
    const declared = typeNamed(type);
    const body = optionsOf(declared).flatMap((option) => rows(option));
    return `## ${title}\n\n${text ?? textOf(declared.comment?.summary)}\n\n| option | type | |\n| --- | --- | --- |\n${body.join('\n')}\n`;
  });
  const page = `# Options

All options, and what a \`Lease\` offers. \`npm run docs\` writes this page from the doc comments of the types. Times are
milliseconds. Options without "needed" may be missing or undefined.

${parts.join('\n')}
## What a lease offers

| member of \`Lease\` | type | |
| --- | --- | --- |
${memberRows(typeNamed('Lease')).join('\n')}
`;
  const config = await prettier.resolveConfig(file);
  return prettier.format(page, { ...config, filepath: file });
}

if (isMain(import.meta.url)) {
  writeFileSync(file, await optionsPage());
  console.log(path.relative(process.cwd(), file));
}
