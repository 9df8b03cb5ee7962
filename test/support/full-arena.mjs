// Fills the arena of the native engine, so that the locks made later are in separate memory.
import { StripedLock } from 'stripelock';

const LARGE = 16_384;

/** Makes locks until the next one of any size gets separate memory. */
export function fillArena() {
  for (let stripes = LARGE; stripes >= 1; stripes >>= 1) {
    while (new StripedLock({ engine: 'native', stripes }).handle.arena !== undefined);
  }
}
