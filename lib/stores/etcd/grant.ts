import { decodeText, encodeText } from '../exact-text.js';
import { base64, fromBase64, type KeyValue } from './messages.js';

/** What stands at a key that is held. */
export interface Grant {
  /** What revisions are added to. */
  readonly base: string;
  readonly owner: string;
  /** Of the grant, if the key was written again since; otherwise that of the key. */
  readonly revision: string;
  /** Empty for none. */
  readonly info: string;
  /** The etcd lease that the key is bound to. */
  readonly lease: string;
  /** As it stands there. */
  readonly kv: KeyValue;
}

/** What is written at a key, in base64. `revision`: of the grant, if this is not the first write. */
export function valueOf(base: string, owner: string, info: string, revision?: string): string {
  const kept: { base: string; owner: string; revision?: string; info?: string } = { base, owner };
  // Not spread, which takes more than a microsecond where there is nothing to spread.
  if (revision !== undefined) kept.revision = revision;
  if (info !== '') kept.info = info;
  // JSON keeps every text, also with lone surrogates, and a person can read it.
  return base64(JSON.stringify(kept));
}

/** Throws a TypeError for what no store of this kind has written. */
export function grantIn(kv: KeyValue): Grant {
  const { value, mod_revision = '', lease = '0', key } = kv;
  try {
    const {
      base,
      owner,
      revision = mod_revision,
      info = '',
    } = JSON.parse(fromBase64(value)) as { [name: string]: unknown };
    const areTexts = typeof owner === 'string' && typeof info === 'string';
    if (areTexts && isNumber(base) && isNumber(revision)) return { base, owner, revision, info, lease, kv };
  } catch {
    // Not JSON.
  }
  throw new TypeError(`the value at ${JSON.stringify(fromBase64(key))} is no lease`);
}

/** Rises as long as revisions do, and over the loss of all data if the base is greater then. */
export function tokenOf(base: string, revision: string): bigint {
  return BigInt(base) + BigInt(revision);
}

/** Where the keys of a prefix are, in base64. */
export class KeyNames {
  readonly #prefix: string;
  /** What revisions are added to stands there. */
  readonly base: string;

  constructor(prefix: string) {
    this.#prefix = `${prefix}lease/`;
    this.base = base64(`${prefix}base`);
  }

  of(key: string): string {
    return base64(this.#prefix + encodeText(key));
  }

  /** All keys of leases: from the first to the one that follows the last. */
  get all(): { readonly key: string; readonly range_end: string } {
    return { key: base64(this.#prefix), range_end: base64(`${this.#prefix.slice(0, -1)}0`) };
  }

  /** For messages. */
  static textOf(name: string): string {
    return decodeText(fromBase64(name));
  }
}

function isNumber(text: unknown): text is string {
  return typeof text === 'string' && /^\d{1,20}$/.test(text);
}
