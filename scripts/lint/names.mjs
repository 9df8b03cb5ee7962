// Names in comments must exist. Otherwise comments still mention a function after it was renamed.
//
// The check looks at text in backquotes and in {@link}, and at text that looks like a name without them: `Table::leave`,
// `leave()`, `kQueued`, `lockWord`, `table/table.h`. A name exists if code contains each of its parts, as an identifier or as
// a word of a string, or if Node provides it. A path exists if a file or folder ends with it. Expressions are not checked.

import { builtinModules } from 'node:module';
import path from 'node:path';

import ts from 'typescript';

/** Files whose comments are checked. */
const CHECKED = /^(?:lib|native|model|scripts|test|bench|examples)\/.*\.(?:[cm]?[jt]s|cc|h|pml)$/;
const SCRIPT = /\.[cm]?[jt]s$/;
const NATIVE = /\.(?:cc|h|pml)$/;

const WORD = /[A-Za-z_$][\w$]*/g;
/** A name with its qualifier, and perhaps arguments: `lock`, `Table::leave()`, `guard.#words`, `acquire(key)`. */
const NAME = /^[#@]?[A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[#~]?[A-Za-z_$][\w$]*)*(?:\([^()]*\))?$/;
const PATH = /^[\w@.*…<>-]*(?:\/[\w@.*…<>-]*)+$|^[\w.-]+\.(?:[cm]?[jt]s|cc|h|pml|json|md|gyp|node)$/;
/** Parts of paths that are placeholders, or that a build or an install creates. */
const PLACEHOLDER = /[*…<>]|^(?:dist|unbundled|release|build|prebuilds|node_modules|coverage)(?:\/|$)/;
/** Names and paths without backquotes: qualified, called, a constant, in camel case, or with a file extension. */
const BARE =
  /(?<![\w/.`'"@#:$-])(?:[\w.-]+\/)*[\w.-]+\.(?:mjs|ts|js|cc|h|pml)(?![\w/`-])|(?<![\w.`'"/@#:$-])(?:[A-Za-z_]\w*(?:::|\.))*(?:[A-Za-z_]\w*(?=\(\))|[A-Za-z_]\w*(?<=::\w+)|k[A-Z]\w*|[a-z]+[A-Z]\w*|[A-Z]{1,2}[a-z]\w*[A-Z]\w*)(?![\w`-])/g;
/** Parts of a comment without names: samples of code, types in JSDoc (braces nest), and addresses. */
const SKIPPED = [
  /```[^]*?```|^ *\* {5,}.*$/gm,
  ...[1, 2, 3].map(() => /\{(?!@link)[^{}]*\}/g),
  /@(?:param|property|template|typedef|callback) +\S+/g,
  /https?:\S+/g,
];

/** Names of languages and products, and of other programs. */
const KNOWN = new Set(
  (
    'JavaScript TypeScript WebAssembly CommonJS GoogleTest WebKit Benchmark.js Node.js gRPC KiB MiB GiB ' +
    'ThreadSanitizer AddressSanitizer LeakSanitizer MurmurHash3 SplitMix64 ZipfianGenerator OpenTelemetry @aws-sdk/client-dynamodb ' +
    'NestJS BullMQ WebSocket WebSockets @valkey/valkey-glide @upstash/redis xxhash.h tests/sanity_test_vectors.h npm npx git gyp vitest eslint tsc'
  ).split(' '),
);

/** The names that Node and JavaScript provide, with their members. */
const provided = new Set(builtinModules);
for (const owner of [
  globalThis,
  ...(await Promise.all(
    builtinModules.filter((name) => !/^_|^(?:sys|wasi|trace_events)$/.test(name)).map((name) => import(name)),
  )),
])
  collect(owner, 3);

/**
 * @param {any} value
 * @param {number} depth
 */
function collect(value, depth) {
  if (depth === 0 || value === null || !['object', 'function'].includes(typeof value)) return;
  for (const [name, { value: inner }] of Object.entries(Object.getOwnPropertyDescriptors(value))) {
    provided.add(name);
    collect(inner, depth - 1);
  }
}

/** @typedef {{ start: number, text: string }} Comment */

/**
 * The words that a file's code uses, and its comments.
 *
 * @param {string} name
 * @param {string} text
 * @returns {{ words: string[], comments: Comment[] }}
 */
function partsOf(name, text) {
  /** @type {Comment[]} */
  const comments = [];
  if (!SCRIPT.test(name)) {
    const code = text.replace(
      NATIVE.test(name) ? /\/\/.*|\/\*[^]*?\*\/|"(?:\\.|[^"\\\n])*"/g : /^$/g,
      (found, start) => {
        if (found.startsWith('"')) return found;
        comments.push({ start, text: found });
        return ' ';
      },
    );
    return { words: code.match(WORD) ?? [], comments };
  }
  /** @type {string[]} */
  const words = [];
  const seen = new Set();
  const add = (/** @type {number} */ start, /** @type {number} */ end) => {
    if (seen.has(start)) return;
    seen.add(start);
    comments.push({ start, text: text.slice(start, end) });
    // The types that JSDoc declares.
    for (const [, type = ''] of text
      .slice(start, end)
      .matchAll(/@(?:typedef|callback|property|template) .*?\[?([\w$]+)\]?(?=\s|$)/gm))
      words.push(type);
  };
  const visit = (/** @type {ts.Node} */ node) => {
    ts.forEachLeadingCommentRange(text, node.pos, add);
    ts.forEachTrailingCommentRange(text, node.end, add);
    const children = node.getChildren();
    const isSentence = ts.isStringLiteralLike(node) && /\s/.test(node.text);
    const own = isSentence ? /\b(?:[A-Z][A-Z\d_]+|\w*_\w+|[a-z]+[A-Z]\w*)\b/g : WORD;
    if (children.length === 0 && !ts.isJSDoc(node)) words.push(...(node.getText().match(own) ?? []));
    for (const child of children) if (!ts.isJSDoc(child)) visit(child);
  };
  visit(ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true));
  return { words, comments };
}

/**
 * The names in a comment, each with its place.
 *
 * @param {Comment} comment
 */
function namesIn({ start, text }) {
  const spaces = (/** @type {string} */ part) => ' '.repeat(part.length);
  const plain = SKIPPED.reduce((left, pattern) => left.replace(pattern, spaces), text);
  const marked = [...plain.matchAll(/`([^`]+)`|\{@link (\S+?)\}/g)].map(
    ({ 1: quoted, 2: linked, index }) => ({
      // It may span lines.
      span: (quoted ?? linked ?? '').replace(/\s*\n\s*(?:\/\/|\*)?\s*/g, ' '),
      at: start + index,
    }),
  );
  const bare = [...plain.replace(/`[^`]+`/g, spaces).matchAll(BARE)];
  return [...marked, ...bare.map(({ 0: span, index }) => ({ span, at: start + index }))];
}

/**
 * @param {ReadonlyMap<string, string>} sources See sources.mjs.
 * @returns {string[]} A line for each name that does not exist: file, line, name.
 */
export function unknownNames(sources) {
  const files = [...sources.keys()];
  const parts = [...sources]
    .filter(([name]) => !name.endsWith('.md'))
    .map(([name, text]) => ({ name, text, ...partsOf(name, text) }));
  const words = new Set(parts.flatMap((part) => part.words));
  const exists = (/** @type {string} */ span, /** @type {string} */ from) => {
    if (KNOWN.has(span) || /^(?:node:|(?:std|Napi|napi|absl|WTF|testing)::)/.test(span)) return true;
    if (PATH.test(span)) return PLACEHOLDER.test(span) || isPath(span, from, files);
    const [name = ''] = span.split('(');
    return (
      !NAME.test(span) ||
      (name.match(WORD) ?? []).every((word) => words.has(word) || provided.has(word) || KNOWN.has(word))
    );
  };
  return parts
    .filter(({ name }) => CHECKED.test(name))
    .flatMap(({ name, text, comments }) =>
      comments
        .flatMap(namesIn)
        .filter(({ span }) => !exists(span, name))
        .map(({ span, at }) => `${name}:${text.slice(0, at).split('\n').length}: no ${span}`),
    );
}

/**
 * @param {string} span
 * @param {string} from
 * @param {readonly string[]} files
 */
function isPath(span, from, files) {
  const wanted = path.posix.normalize(span.replace(/\/$/, '').replace(/^stripelock\/([\w-]+)$/, 'lib/$1.ts'));
  const relative = path.posix.join(path.posix.dirname(from), wanted);
  return files.some((file) => `${file}/`.startsWith(`${relative}/`) || `/${file}/`.includes(`/${wanted}/`));
}
