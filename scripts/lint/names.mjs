// Names in comments must exist. Otherwise comments still mention a function after it was renamed.
//
// The check looks at text in backquotes and in {@link}, and at what looks like a name without them: `Table::leave`, `leave()`,
// `kQueued`, `lockWord`, `core/table.h`. A name exists if code uses it: as an identifier, or as a word of a string (an
// option, a command, a column). Both parts of a qualified name must be in one file. A path exists if a file or folder
// ends with it. Expressions in backquotes are not checked.

import { builtinModules, createRequire } from 'node:module';
import path from 'node:path';

import { NATIVE, split } from './comments.mjs';

const require = createRequire(import.meta.url);

/** Where comments are checked. */
const CHECKED = /^(?:lib|native|model|scripts|test|bench|examples)\/.*\.(?:[cm]?[jt]s|cc|h|pml)$/;

const IDENTIFIER = /[A-Za-z_$][\w$]*/g;
/** A name with its qualifier, and perhaps arguments: `lock`, `Table::leave()`, `guard.#words`, `acquire(key)`. */
const NAME = /^[#@]?[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[#~]?[A-Za-z_$][\w$]*)*(?:\([^()]*\))?$/;
const PATH = /^[\w@.*…<>-]*(?:\/[\w@.*…<>-]*)+$|^[\w.-]+\.(?:[cm]?[jt]s|cc|h|pml|json|md|gyp|node)$/;
/** Parts of paths that are placeholders, or that a build or an install creates. */
const PLACEHOLDER = /[*…<>]|^(?:dist|unbundled|release|build|prebuilds|node_modules|coverage)(?:\/|$)/;
/** Names and paths without backquotes: qualified, called, a constant, in camel case, or with a file extension. */
const BARE =
  /(?<![\w/.`'"@#:$-])(?:[\w.-]+\/)*[\w.-]+\.(?:mjs|ts|js|cc|h|pml)(?![\w/`-])|(?<![\w.`'"/@#:$-])(?:[A-Za-z_]\w*(?:::|\.))*(?:[A-Za-z_]\w*(?=\(\))|[A-Za-z_]\w*(?<=::\w+)|k[A-Z]\w*|[a-z]+[A-Z]\w*|[A-Z]{1,2}[a-z]\w*[A-Z]\w*)(?![\w`-])/g;

/**
 * Foreign names, which need not occur in code here: languages and products in camel case, and names of other programs.
 * Names that Node and JavaScript provide are looked up at run time.
 */
const KNOWN = new Set(
  (
    'JavaScript TypeScript WebAssembly CommonJS GoogleTest WebKit Benchmark.js gRPC KiB MiB GiB ' +
    'ThreadSanitizer AddressSanitizer LeakSanitizer MurmurHash3 SplitMix64 ZipfianGenerator OpenTelemetry ' +
    'xxhash.h tests/sanity_test_vectors.h ' +
    'npm npx git gyp vitest eslint tsc'
  ).split(' '),
);

/** Foreign namespaces in C++. */
const NAMESPACES = new Set('std Napi napi absl WTF testing'.split(' '));

/** The names that Node and JavaScript provide, and the members of these, which follow a dot. */
const platform = { names: new Set(KNOWN), members: new Set() };
for (const name of builtinModules.filter((name) => !name.startsWith('_') && name !== 'sys')) {
  platform.names.add(name);
  collect(moduleOf(name), [platform.names, platform.members, platform.members]);
}
collect(globalThis, [platform.names, platform.members, platform.members]);

/** @param {string} name */
function moduleOf(name) {
  try {
    return require(name);
  } catch {
    return {};
  }
}

/**
 * @param {unknown} value
 * @param {readonly Set<string>[]} into The set for its own names, for theirs, and so on.
 */
function collect(value, [set, ...deeper]) {
  if (set === undefined || value === null || !['object', 'function'].includes(typeof value)) return;
  for (const [name, { value: inner }] of Object.entries(Object.getOwnPropertyDescriptors(value))) {
    set.add(name);
    collect(inner, deeper);
  }
}

/** @typedef {import('./comments.mjs').Split} Split */

/** If a string is a sentence, only the parts that cannot be ordinary words. */
const UNLIKE_WORDS = /\b(?:[A-Z][A-Z\d_]+|\w*_\w+|[a-z]+[A-Z]\w*)\b/g;

/**
 * The names that code uses.
 *
 * @param {string} code
 * @returns {Set<string>}
 */
function wordsOf(code) {
  const words = new Set();
  const withoutSentences = code.replace(/'[^'\n]*'|"[^"\n]*"|`[^`]*`/g, (literal) => {
    if (!/\s/.test(literal)) return literal;
    for (const [word] of literal.matchAll(UNLIKE_WORDS)) words.add(word);
    for (const [, inserted = ''] of literal.matchAll(/\$\{([^}]*)\}/g)) {
      for (const [word] of inserted.matchAll(IDENTIFIER)) words.add(word);
    }
    return ' ';
  });
  for (const [word] of withoutSentences.matchAll(IDENTIFIER)) words.add(word);
  return words;
}

/** Declarations in C++ that have members. */
const DECLARATION = /\b(?:class|struct|enum|union|namespace|using)\s+(?:class\s+)?(\w+)/g;

/**
 * The types that JSDoc declares.
 *
 * @param {Split['comments'][number]} comment
 */
function typesIn({ text }) {
  if (!text.startsWith('/**')) return [];
  const plain = blank(text, ...JSDOC.slice(0, 3));
  return [...plain.matchAll(/@(?:typedef|callback|property|template) +\[?([\w$]+)/g)].map(
    ([, name = '']) => name,
  );
}

/**
 * @param {ReadonlyMap<string, string>} sources See sources.mjs.
 * @returns {string[]} A line for each name that does not exist: file, line, name.
 */
export function unknownNames(sources) {
  /** @type {Map<string, Set<string>>} */
  const wordsIn = new Map();
  /** @type {Map<string, Set<string>[]>} */
  const declarations = new Map();
  /** @type {[name: string, text: string, comments: Split['comments']][]} */
  const checked = [];
  for (const [name, text] of sources) {
    if (name.endsWith('.md')) continue;
    const { code, comments } = split(name, text);
    const words = wordsOf(code);
    for (const comment of comments) for (const type of typesIn(comment)) words.add(type);
    wordsIn.set(name, words);
    for (const [, declared = ''] of NATIVE.test(name) ? code.matchAll(DECLARATION) : []) {
      declarations.set(declared, [...(declarations.get(declared) ?? []), words]);
    }
    if (CHECKED.test(name)) checked.push([name, text, comments]);
  }
  const project = {
    files: [...sources.keys()],
    wordsIn: [...wordsIn.values()],
    words: new Set(),
    declarations,
  };
  for (const words of project.wordsIn) for (const word of words) project.words.add(word);
  return checked.flatMap(([name, text, comments]) =>
    comments.flatMap((comment) =>
      namesIn(comment)
        .filter(({ span }) => !exists(span, name, project))
        .map(({ span, at }) => `${name}:${text.slice(0, at).split('\n').length}: no ${span}`),
    ),
  );
}

/** Code in JSDoc: fenced, or indented too far to be a list. */
const SAMPLES = /```[^]*?```|^ *\* {5,}.*$/gm;

/** The types in JSDoc, which the compiler checks: from the inside out, since braces nest. */
const JSDOC = [
  /\{[^{}]*\}/g,
  /\{[^{}]*\}/g,
  /\{[^{}]*\}/g,
  /@(?:param|property|template|typedef|callback) +\S+/g,
];

/**
 * @param {string} text
 * @param {...RegExp} patterns
 */
const blank = (text, ...patterns) =>
  patterns.reduce((left, pattern) => left.replace(pattern, (part) => ' '.repeat(part.length)), text);

/**
 * What a comment names, each with its place.
 *
 * @param {Split['comments'][number]} comment
 * @returns {{ span: string, at: number }[]}
 */
function namesIn({ start, text }) {
  const marked = [...blank(text, SAMPLES).matchAll(/`([^`]+)`|\{@link (\S+?)\}/g)].map(
    ({ 1: quoted, 2: linked, index }) => ({
      // May span lines.
      span: (quoted ?? linked ?? '').replace(/\s*\n\s*(?:\/\/|\*)?\s*/g, ' '),
      at: start + index,
    }),
  );
  const rest = blank(blank(text, SAMPLES), /`[^`]+`/g, ...JSDOC, /https?:\S+/g);
  const bare = [...rest.matchAll(BARE)].map(({ 0: span, index }) => ({ span, at: start + index }));
  return [...marked, ...bare];
}

/**
 * @typedef {object} Project
 * @property {readonly string[]} files
 * @property {ReadonlySet<string>} words Of all files.
 * @property {readonly ReadonlySet<string>[]} wordsIn Of each.
 * @property {ReadonlyMap<string, readonly ReadonlySet<string>[]>} declarations Of the files that declare a name in C++.
 */

/**
 * @param {string} span
 * @param {string} from The file that says it.
 * @param {Project} project
 */
function exists(span, from, project) {
  if (KNOWN.has(span) || span === 'Node.js' || span.startsWith('node:')) return true;
  if (PATH.test(span)) return PLACEHOLDER.test(span) || isPath(span, from, project.files);
  if (!NAME.test(span)) return true;
  const [name = ''] = span.split('(');
  const parts = [...name.matchAll(IDENTIFIER)].map(([word]) => word);
  const [first = '', ...members] = parts;
  if (members.length === 0) {
    const isMember = /[a-z][A-Z]/.test(first) && platform.members.has(first);
    return project.words.has(first) || platform.names.has(first) || isMember;
  }
  if (name.includes('::')) {
    const declared = project.declarations.get(first) ?? [];
    return NAMESPACES.has(first) || declared.some((words) => members.every((member) => words.has(member)));
  }
  const isOurs = project.wordsIn.some((words) => parts.every((part) => words.has(part)));
  return isOurs || members.every((member) => platform.members.has(member) || platform.names.has(member));
}

/**
 * @param {string} span
 * @param {string} from
 * @param {readonly string[]} files
 */
function isPath(span, from, files) {
  // What the package exports.
  const wanted = path.posix.normalize(span.replace(/\/$/, '').replace(/^stripelock\/([\w-]+)$/, 'lib/$1.ts'));
  const relative = path.posix.join(path.posix.dirname(from), wanted);
  return files.some(
    (file) =>
      file === relative ||
      file.startsWith(`${relative}/`) ||
      `/${file}`.endsWith(`/${wanted}`) ||
      `/${file}`.includes(`/${wanted}/`),
  );
}
