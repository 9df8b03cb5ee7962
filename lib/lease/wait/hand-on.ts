import { onRelease, type LeaseStore } from '../contract/lease-store.js';

/** A queue that waits for a key. */
export interface ReleaseListener {
  /** The key may be free. */
  wake(): void;
  /** A manager of this thread has released a lease of the key. */
  handOn(): void;
}

/** For stores that cannot report releases: the queues of this thread, by key, in the order of their turns. */
const listenersHere = new WeakMap<LeaseStore, Map<string, Set<ReleaseListener>>>();

/**
 * Tells the queue of releases: all that the store reports or, if it reports none, those in this thread. Returns a
 * function that ends it.
 */
export function listenForReleases(store: LeaseStore, key: string, listener: ReleaseListener): () => void {
  return onRelease(store, key, () => listener.wake()) ?? listenHere(store, key, listener);
}

function listenHere(store: LeaseStore, key: string, listener: ReleaseListener): () => void {
  let ofStore = listenersHere.get(store);
  if (!ofStore) listenersHere.set(store, (ofStore = new Map<string, Set<ReleaseListener>>()));
  let ofKey = ofStore.get(key);
  if (!ofKey) ofStore.set(key, (ofKey = new Set()));
  ofKey.add(listener);
  return () => {
    ofKey.delete(listener);
    if (ofKey.size === 0 && ofStore.get(key) === ofKey) ofStore.delete(key);
  };
}

/** A manager of this thread has released a lease of the key: tells the queue whose turn it is. */
export function handOn(store: LeaseStore, key: string): void {
  const listeners = listenersHere.get(store)?.get(key);
  if (listeners === undefined) return;
  const [first] = listeners;
  listeners.delete(first!);
  listeners.add(first!);
  first!.handOn();
}
