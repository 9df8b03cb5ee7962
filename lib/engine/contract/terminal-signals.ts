/** Finds out whether a signal came from a terminal, as with Ctrl+C, or from a process. */
export interface TerminalSignals {
  /** Starts to count signals that a terminal sends. This thread must already have a listener for the signal. */
  count(signal: number): void;
  /**
   * Call once per signal, in its listener. True if a terminal sent it. Always true on Windows, where only the console
   * sends signals.
   */
  take(signal: number): boolean;
}
