import { pathToFileURL } from 'node:url';
import { checkNonEmpty } from '../lease/contract/lease-store.js';

/** The URL of an `options.clientModule`, for any thread to import. A path counts from the folder of the process. */
export function moduleUrl(module: unknown): string {
  if (module instanceof URL) return module.href;
  const text = checkNonEmpty(module, 'options.clientModule');
  // A scheme has more letters than a drive of Windows.
  return /^[a-z][a-z\d+.-]+:/i.test(text) ? text : pathToFileURL(text).href;
}
