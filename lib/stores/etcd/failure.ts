/** Of the codes of etcd's protocol, those that matter here. */
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

/** Why a request has no result: what a server answered, or that none did. */
export class EtcdFailure extends Error {
  /** Of etcd's protocol; undefined if no etcd has answered. */
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

/** Missing rights, a wrong user or password, or none where the servers want one. */
export function isDenied(error: unknown): boolean {
  if (!(error instanceof EtcdFailure)) return false;
  return error.code === PERMISSION_DENIED || /authentication failed|user name is empty/.test(error.message);
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
