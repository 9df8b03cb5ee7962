/** Whether signals come from keys of a terminal, such as Ctrl+C, or from processes. */
export interface SignalKeys {
  /** Counts the keys behind a signal. This thread must have a listener for it. */
  count(signal: number): void;
  /** To be called once in the listener: whether a key sent the signal. On Windows, which has no other senders, it is true. */
  take(signal: number): boolean;
}
