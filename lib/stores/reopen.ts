import { pathToFileURL } from 'node:url';
import { checkNonEmpty, type LeaseStoreSource } from '../lease/contract/lease-store.js';

/** How another thread makes a store by `reopen`, on a client of its own. Undefined without an `options.clientModule`. */
export function reopenedBy(
  reopen: { readonly module: string; readonly name: string },
  clientModule: unknown,
  options: object,
): LeaseStoreSource | undefined {
  if (clientModule === undefined) return undefined;
  return { ...reopen, options: { clientModule: moduleUrl(clientModule), ...options } };
}

/** The URL of a module, for any thread to import. A path counts from the folder of the process. */
export function moduleUrl(module: unknown): string {
  if (module instanceof URL) return module.href;
  const text = checkNonEmpty(module, 'options.clientModule');
  // A scheme has more letters than a drive of Windows.
  return /^[a-z][a-z\d+.-]+:/i.test(text) ? text : pathToFileURL(text).href;
}

/** What the default export of a `clientModule` makes. `what`: for the error. */
export async function clientFrom<C>(clientModule: string, what = 'a client'): Promise<C> {
  const { default: make } = (await import(clientModule)) as { default?: () => C | Promise<C> };
  if (typeof make === 'function') return make();
  throw new TypeError(`${clientModule} must have a default export that is a function and makes ${what}`);
}
