// The requests and answers of etcd's JSON gateway, and the meaning of its failures.

import type { LockError } from '../../common/errors.js';
import { storeDenied } from '../../lease/contract/errors.js';

/** The name of the server in error messages. */
export const TITLE = 'etcd';

/** The gRPC status codes that the store distinguishes. */
const DEADLINE_EXCEEDED = 4;
const NOT_FOUND = 5;
const CANCELLED = 1;
const UNKNOWN = 2;
const PERMISSION_DENIED = 7;
const RESOURCE_EXHAUSTED = 8;
const FAILED_PRECONDITION = 9;
const INTERNAL = 13;
const UNAVAILABLE = 14;
const UNAUTHENTICATED = 16;

/** A key in a server's answer. In JSON, 64-bit numbers are decimal strings, and zeros are omitted. */
export interface KeyValue {
  readonly key?: string;
  readonly value?: string;
  readonly mod_revision?: string;
  readonly lease?: string;
}

/**
 * The members of the gateway's answers that the store reads. Each answer has only the members that its
 * request needs.
 */
export interface Message {
  readonly header?: { readonly revision?: string; readonly raft_term?: string };
  readonly ID?: string;
  readonly TTL?: string;
  readonly grantedTTL?: string;
  readonly token?: string;
  readonly kvs?: readonly KeyValue[];
  readonly succeeded?: boolean;
  readonly responses?: readonly TxnResponse[];
  readonly created?: boolean;
  readonly canceled?: boolean;
  readonly events?: readonly { readonly kv?: KeyValue }[];
}

/** The answer to one operation of a transaction. */
export interface TxnResponse {
  readonly response_range?: { readonly kvs?: readonly KeyValue[] };
  readonly response_txn?: Message;
}

/** A transaction in the gateway's format. */
export interface Txn {
  readonly compare?: readonly object[];
  readonly success: readonly object[];
  readonly failure?: readonly object[];
}

/** The gateway encodes bytes as base64. */
export function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

export function fromBase64(bytes: string | undefined): string {
  return Buffer.from(bytes ?? '', 'base64').toString();
}

/** A comparison that succeeds if the key does not exist. */
export function isAbsent(key: string): object {
  return wasCreatedAt(key, '0');
}

/** A comparison that succeeds if the key has this value. */
export function hasValue(key: string, value: string): object {
  return { key, target: 'VALUE', value };
}

/**
 * Comparisons that succeed if the key was not written since it was read. A cluster that lost its data counts
 * revisions from 1 again, so the revision alone is not enough. The value, which contains the token base, is
 * therefore compared, too.
 */
export function isUnchanged(key: string, { value, mod_revision }: KeyValue): object[] {
  return [hasValue(key, value ?? ''), hasRevision(key, mod_revision ?? '0')];
}

/**
 * A comparison that succeeds if the key was not written since it was read, or if the key no longer exists.
 * The revision of a key that does not exist is 0.
 */
export function isNotLaterThan(key: string, { mod_revision }: KeyValue): object {
  return isOlderThan(key, String(BigInt(mod_revision ?? 0) + 1n));
}

/** A comparison that succeeds if the last write of the key has this revision. It is 0 if the key does not exist. */
export function hasRevision(key: string, mod_revision: string): object {
  return { key, target: 'MOD', mod_revision };
}

/** A comparison that succeeds if the key was last written before this revision, or does not exist. */
export function isOlderThan(key: string, mod_revision: string): object {
  return { key, target: 'MOD', result: 'LESS', mod_revision };
}

/** A comparison that succeeds if the key was created by the write with this revision. */
export function wasCreatedAt(key: string, create_revision: string): object {
  return { key, target: 'CREATE', create_revision };
}

export function put(key: string, value: string, lease?: string): object {
  return { requestPut: lease === undefined ? { key, value } : { key, value, lease } };
}

export function range(key: string): object {
  return { requestRange: { key } };
}

export function remove(key: string): object {
  return { requestDeleteRange: { key } };
}

export function kvOf(response: TxnResponse | undefined): KeyValue | undefined {
  return response?.response_range?.kvs?.[0];
}

export function termOf(message: Message): string {
  return message.header?.raft_term ?? '';
}

/**
 * Parses an answer. An answer is one message, or a stream of messages with an envelope around each of them.
 * Throws an EtcdFailure.
 */
export function messagesIn(text: string): Message[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map(messageIn);
}

/** The error for an answer with a failure status. */
export function failureOf(status: number, text: string): EtcdFailure {
  try {
    const { message, error, code } = JSON.parse(text) as { message?: string; error?: unknown; code?: number };
    const reason = typeof message === 'string' ? message : String(error);
    if (typeof code === 'number') return answeredFailure(reason, code);
  } catch {
    // Not an answer of etcd's gateway.
  }
  // A status of 500 or more may come from a proxy that currently reaches no server. Any other status means
  // that the URL does not belong to a gateway.
  if (status >= 500) return new EtcdFailure(`status ${status}`, undefined, true);
  return answeredFailure(`status ${status}, which is not an answer of etcd's gateway at /v3`, status);
}

function messageIn(line: string): Message {
  let document: Message & { readonly result?: Message; readonly error?: StreamError | string };
  try {
    document = JSON.parse(line) as typeof document;
  } catch {
    throw new EtcdFailure('the answer is not JSON', undefined, true);
  }
  const { result, error } = document;
  if (error === undefined) return result ?? document;
  const reason = typeof error === 'string' ? error : (error.message ?? 'a failure without a message');
  throw answeredFailure(reason, typeof error === 'string' ? undefined : (error.grpc_code ?? error.code));
}

/** A failure within a stream. The name of the property with the code depends on etcd's version. */
interface StreamError {
  readonly message?: string;
  readonly grpc_code?: number;
  readonly code?: number;
}

/** A failed request: a server answered with an error, or no server answered. */
export class EtcdFailure extends Error {
  /** The gRPC status code; undefined if the answer did not come from etcd. */
  readonly code: number | undefined;
  /** Whether a server may have executed the request, or may still do so. */
  readonly uncertain: boolean;

  constructor(message: string, code: number | undefined, uncertain: boolean, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.uncertain = uncertain;
  }

  /** The failure to report if an earlier copy of the request had an uncertain result. */
  afterUncertain(): EtcdFailure {
    return this.uncertain ? this : new EtcdFailure(this.message, this.code, true, this);
  }
}

/** A failure that a server reported. */
export function answeredFailure(message: string, code: number | undefined): EtcdFailure {
  return new EtcdFailure(message, code, isUncertain(message, code));
}

/** The reaction to a failure: try another server, authenticate again, or give up. */
export type Verdict = 'elsewhere' | 'authenticate' | 'final';

export function verdictOn({ code, message }: EtcdFailure): Verdict {
  if (code === UNAUTHENTICATED) return 'authenticate';
  // The token is missing, or older than the last change of users. Both errors have the same code as an
  // invalid argument.
  if (/user name is empty|auth store is old/.test(message)) return 'authenticate';
  // A server with full storage reports the same code, and then a retry would not help.
  if (code === RESOURCE_EXHAUSTED) return /too many requests/.test(message) ? 'elsewhere' : 'final';
  return code === undefined || isTransient(code) ? 'elsewhere' : 'final';
}

/** Whether the request failed because its etcd lease does not exist yet, or no longer exists. */
export function isLeaseNotFound(error: unknown): boolean {
  return error instanceof EtcdFailure && error.code === NOT_FOUND;
}

/** Whether the request failed because an etcd lease with this id already exists. */
export function isLeaseKnown(error: unknown): boolean {
  return error instanceof EtcdFailure && /lease already exists/.test(error.message);
}

/** The error for callers if rights are missing, or the user or password is wrong or missing. */
export function permanent(error: unknown): LockError | undefined {
  if (!(error instanceof EtcdFailure)) return undefined;
  const isDenied =
    error.code === PERMISSION_DENIED || /authentication failed|user name is empty/.test(error.message);
  return isDenied ? storeDenied(TITLE, error) : undefined;
}

/** Whether the request failed because authentication is disabled on the servers. */
export function isAuthDisabled(error: unknown): boolean {
  return (
    error instanceof EtcdFailure &&
    error.code === FAILED_PRECONDITION &&
    /authentication is not enabled/.test(error.message)
  );
}

/**
 * Whether a retry may succeed: the cluster lacks a leader, the leader changed, the server is shutting down,
 * or a time limit of the server passed.
 */
function isTransient(code: number): boolean {
  return code === UNAVAILABLE || code === DEADLINE_EXCEEDED || code === CANCELLED;
}

/** Whether the request may have reached the Raft log before it failed. */
function isUncertain(message: string, code: number | undefined): boolean {
  if (code === undefined) return true;
  const saysNothing = code === INTERNAL || code === UNKNOWN;
  return saysNothing || (isTransient(code) && !/no leader/.test(message));
}
