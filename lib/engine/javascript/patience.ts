/**
 * How long a waiter relies on being called before it looks for itself, in milliseconds. Calls get lost only with
 * threads that end, or are busy when called; see `stripe-lines.ts`. Tests make these times long, to see that nothing depends on
 * them.
 */
export const patience = {
  /** A stripe stays reserved for who was called. */
  reserved: 20,
  /** A sleeping thread's first time. A thread that looks goes back to the end of its queue; so each is twice as long. */
  shortest: 20,
  longest: 1000,
  /** A thread's async acquisitions, which keep their places. */
  eventLoop: 50,
};
