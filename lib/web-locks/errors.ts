/** The host's own, as it is at import. */
const { DOMException } = globalThis;

/** The error for what the standard rules out. */
export function notSupported(message: string): Error {
  return new DOMException(message, 'NotSupportedError');
}

/** The error of a request whose lock another one has taken. */
export function stolenError(): Error {
  return new DOMException('the lock was stolen by another request', 'AbortError');
}

/** The error of a request that ran out of time. The name is that of the reason of `AbortSignal.timeout`. */
export function timeoutError(timeout: number): Error {
  return new DOMException(`the lock was not granted within ${timeout} ms`, 'TimeoutError');
}
