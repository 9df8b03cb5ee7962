// What the JSON gateway of an etcd takes and answers, and what its failures mean.

import type { LockError } from '../../common/errors.js';
import { storeDenied } from '../../lease/contract/errors.js';

/** For messages. */
export const TITLE = 'etcd';

/** The codes of etcd's protocol that matter here. */
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

/** A key as a server answers with it. Numbers of 64 bits are decimal text in JSON; those that are 0 are left out. */
export interface KeyValue {
  readonly key?: string;
  readonly value?: string;
  readonly mod_revision?: string;
  readonly lease?: string;
}

/** What the gateway answers, as far as it is read here. Which members there are depends on what was asked. */
export interface Message {
  readonly header?: { readonly revision?: string; readonly raft_term?: string };
  readonly ID?: string;
  readonly TTL?: string;
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

/** A transaction, as the gateway takes it. */
export interface Txn {
  readonly compare?: readonly object[];
  readonly success: readonly object[];
  readonly failure?: readonly object[];
}

/** Bytes are base64 in JSON. */
export function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

export function fromBase64(bytes: string | undefined): string {
  return Buffer.from(bytes ?? '', 'base64').toString();
}

/** True if nothing is at the key. */
export function isAbsent(key: string): object {
  return { key, target: 'CREATE', create_revision: '0' };
}

/** True if the value is this one. */
export function hasValue(key: string, value: string): object {
  return { key, target: 'VALUE', value };
}

/**
 * True if nobody has written since. Revisions start anew in an empty cluster, so the value, in which the base of tokens
 * stands, must be the same, too.
 */
export function isUnchanged(key: string, { value, mod_revision }: KeyValue): object[] {
  return [hasValue(key, value ?? ''), { key, target: 'MOD', mod_revision }];
}

/** The key was not written after that, or is absent: then its revision is 0. */
export function isNotLaterThan(key: string, { mod_revision }: KeyValue): object {
  return { key, target: 'MOD', result: 'LESS', mod_revision: String(BigInt(mod_revision ?? 0) + 1n) };
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

/** One message; of a stream several, each with its own envelope. Throws an EtcdFailure. */
export function messagesIn(text: string): Message[] {
  return text
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map(messageIn);
}

/** The error of an answer whose status tells of a failure. */
export function failureOf(status: number, text: string): EtcdFailure {
  try {
    const { message, error, code } = JSON.parse(text) as { message?: string; error?: unknown; code?: number };
    const reason = typeof message === 'string' ? message : String(error);
    if (typeof code === 'number') return answeredFailure(reason, code);
  } catch {
    // Not the gateway of an etcd.
  }
  // A proxy without a server may answer another time. Anything else is not the address of a gateway.
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

/** How a stream reports a failure: the name of the code depends on the version. */
interface StreamError {
  readonly message?: string;
  readonly grpc_code?: number;
  readonly code?: number;
}

/** Why a request has no result: what a server answered, or that none did. */
export class EtcdFailure extends Error {
  /** The code of etcd's protocol; undefined if no etcd has answered. */
  readonly code: number | undefined;
  /** Whether a server may have executed the request, or may still do so. */
  readonly uncertain: boolean;

  constructor(message: string, code: number | undefined, uncertain: boolean, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.uncertain = uncertain;
  }

  /** The same, after an earlier send of the request that may have been executed. */
  afterUncertain(): EtcdFailure {
    return this.uncertain ? this : new EtcdFailure(this.message, this.code, true, this);
  }
}

/** A failure that a server has answered with. */
export function answeredFailure(message: string, code: number | undefined): EtcdFailure {
  return new EtcdFailure(message, code, isUncertain(message, code));
}

/** What to do after a failure: ask another server, authenticate again, or give up. */
export type Verdict = 'elsewhere' | 'authenticate' | 'final';

export function verdictOn({ code, message }: EtcdFailure): Verdict {
  if (code === UNAUTHENTICATED) return 'authenticate';
  // Both have the code of a bad argument. A token is missing, or older than a change of users.
  if (/user name is empty|auth store is old/.test(message)) return 'authenticate';
  // A server without space answers so, too, until somebody makes some.
  if (code === RESOURCE_EXHAUSTED) return /too many requests/.test(message) ? 'elsewhere' : 'final';
  return code === undefined || isTransient(code) ? 'elsewhere' : 'final';
}

/** The lease that a request names does not exist, any more or yet. */
export function isLeaseNotFound(error: unknown): boolean {
  return error instanceof EtcdFailure && error.code === NOT_FOUND;
}

/** A lease with this id was made before. */
export function isLeaseKnown(error: unknown): boolean {
  return error instanceof EtcdFailure && /lease already exists/.test(error.message);
}

/** The error for callers: missing rights, a wrong user or password, or none where the servers want one. */
export function permanent(error: unknown): LockError | undefined {
  if (!(error instanceof EtcdFailure)) return undefined;
  const isDenied =
    error.code === PERMISSION_DENIED || /authentication failed|user name is empty/.test(error.message);
  return isDenied ? storeDenied(TITLE, error) : undefined;
}

/** The servers know no users. */
export function isAuthDisabled(error: unknown): boolean {
  return (
    error instanceof EtcdFailure &&
    error.code === FAILED_PRECONDITION &&
    /authentication is not enabled/.test(error.message)
  );
}

/** No leader, a leader that has changed, a server that ends, a time limit of the server's. */
function isTransient(code: number): boolean {
  return code === UNAVAILABLE || code === DEADLINE_EXCEEDED || code === CANCELLED;
}

/** Whether a request may have been proposed to the others before it failed. */
function isUncertain(message: string, code: number | undefined): boolean {
  if (code === undefined) return true;
  const saysNothing = code === INTERNAL || code === UNKNOWN;
  return saysNothing || (isTransient(code) && !/no leader/.test(message));
}
