/** The host's class, captured at import, because the program may replace it later. */
const { DOMException } = globalThis;

/** The error for combinations that the standard forbids. */
export function notSupported(message: string): Error {
  return new DOMException(message, 'NotSupportedError');
}

/** The error of a request whose lock was stolen. */
export function stolenError(): Error {
  return new DOMException('the lock was stolen by another request', 'AbortError');
}

/** The error of a request that timed out. It has the same name as the reason of `AbortSignal.timeout`. */
export function timeoutError(timeout: number): Error {
  return new DOMException(`the lock was not granted within ${timeout} ms`, 'TimeoutError');
}
