import type { StripedLock } from 'stripelock';

/** String keys on as many different stripes, in the order of their stripes. */
export function keysApart(lock: StripedLock, count: number): string[] {
  const byStripe = new Map<number, string>();
  for (let i = 0; byStripe.size < count; i++) {
    if (i > 1_000_000) throw new Error(`no ${count} keys apart on ${lock.stripes} stripes`);
    const key = `apart-${i}`;
    const stripe = lock.stripeOf(key);
    if (!byStripe.has(stripe)) byStripe.set(stripe, key);
  }
  return [...byStripe].sort(([a], [b]) => a - b).map(([, key]) => key);
}

/** Different string keys on one stripe. */
export function keysTogether(lock: StripedLock, count: number): string[] {
  const keys: string[] = [];
  const stripe = lock.stripeOf('together-0');
  for (let i = 0; keys.length < count; i++) {
    const key = `together-${i}`;
    if (lock.stripeOf(key) === stripe) keys.push(key);
  }
  return keys;
}
