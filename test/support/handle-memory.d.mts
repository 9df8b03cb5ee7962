import type { StripedLockHandle } from 'stripelock';

export function wordsOf(handle: StripedLockHandle): Int32Array;
export function handleOfCopy(handle: StripedLockHandle, buffer?: SharedArrayBuffer): StripedLockHandle;
