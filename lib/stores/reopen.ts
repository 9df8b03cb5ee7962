import { pathToFileURL } from 'node:url';
import { checkNonEmpty, type LeaseStoreSource } from '../lease/contract/lease-store.js';

/**
 * Describes how another thread opens the same store with a separate client. Returns undefined if
 * `options.clientModule` was not given.
 */
export function reopenedBy(
  reopen: { readonly module: string; readonly name: string },
  clientModule: unknown,
  options: object,
): LeaseStoreSource | undefined {
  if (clientModule === undefined) return undefined;
  return { ...reopen, options: { clientModule: moduleUrl(clientModule), ...options } };
}

/**
 * Resolves the module to a URL that any thread can import. Relative paths are resolved against the working
 * directory.
 */
export function moduleUrl(module: unknown): string {
  if (module instanceof URL) return module.href;
  const text = checkNonEmpty(module, 'options.clientModule');
  // A scheme must have at least two letters, so that the drive letter of a Windows path does not count as a
  // scheme.
  return /^[a-z][a-z\d+.-]+:/i.test(text) ? text : pathToFileURL(text).href;
}

/** Calls the default export of a `clientModule`. `what` names the expected result in the error message. */
export async function clientFrom<C>(clientModule: string, what = 'a client'): Promise<C> {
  const { default: make } = (await import(clientModule)) as { default?: () => C | Promise<C> };
  if (typeof make === 'function') return make();
  throw new TypeError(`${clientModule} must have a default export that is a function and makes ${what}`);
}
