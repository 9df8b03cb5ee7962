// For locks that are to be in memory of their own: fills what the native engine has for all locks of the process.
import { StripedLock } from 'stripelock';

const LARGE = 16_384;

/** Makes locks until the next of any size gets memory of its own. */
export function fillArena() {
  for (let stripes = LARGE; stripes >= 1; stripes >>= 1) {
    while (new StripedLock({ engine: 'native', stripes }).handle.arena !== undefined);
  }
}
