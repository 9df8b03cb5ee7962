/** Distinguishes signals from a terminal, such as Ctrl+C, from signals that a process sent. */
export interface TerminalSignals {
  /**
   * Starts to count the signals of this number that a terminal sends. This thread must already have a
   * listener for the signal.
   */
  count(signal: number): void;
  /**
   * Call this once for each signal, in the signal's listener. Returns true if a terminal sent the signal.
   * Always returns true on Windows, where only the console sends signals.
   */
  take(signal: number): boolean;
}
