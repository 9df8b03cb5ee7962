// Prints where the memory of a new native lock is.
import { StripedLock } from 'stripelock';

const { arena } = new StripedLock({ engine: 'native', stripes: 1 }).handle;
console.log(arena === undefined ? 'own memory' : 'arena');
