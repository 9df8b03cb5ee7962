/**
 * How long who waits relies on being called, in milliseconds, before it looks for itself. Calls get lost only with
 * threads that end, or are busy or blocked when called; see `stripes.ts`. Tests make these long, to see that
 * nothing else depends on them.
 */
export const patience = {
  /** Of a sleeping thread that is the head of its lane. */
  head: 20,
  /**
   * The longest of other sleeping threads. Who looks goes back to the end of the lane; so the first is as long as
   * that of a head, and each is twice as long as the one before.
   */
  sleeper: 1000,
  /** Of a thread's async acquisitions. */
  eventLoop: 50,
  /**
   * A blocked thread passes on the calls to its async acquisitions at intervals that double, up to this one. Later
   * calls are left to those who miss them.
   */
  relay: 32,
};
