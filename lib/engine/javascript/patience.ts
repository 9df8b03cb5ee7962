/**
 * How long a waiter relies on being called before it looks for itself, in milliseconds. Calls get lost only with
 * threads that end, or are busy or blocked when called; see `stripes.ts`. Tests make these times long, to see that
 * nothing depends on them.
 */
export const patience = {
  /** Of a sleeping thread that is the head of its lane. */
  head: 20,
  /**
   * The longest of other sleeping threads. A thread that looks goes back to the end of the lane; so its first time is as
   * long as that of a head, and each is twice as long as the one before.
   */
  sleeper: 1000,
  /** Of a thread's async acquisitions. */
  eventLoop: 50,
  /**
   * A blocked thread passes on the calls to its async acquisitions at intervals that double, up to this one. After that,
   * those who miss a call look for themselves.
   */
  relay: 32,
};
