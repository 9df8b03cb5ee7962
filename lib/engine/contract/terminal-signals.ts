/** Distinguishes signals from a terminal, such as Ctrl+C, from signals that a process sent. */
export interface TerminalSignals {
  /**
   * Starts to count how often a terminal sends this signal. This thread must already have a listener for the
   * signal.
   */
  count(signal: number): void;
  /**
   * Call once per signal, in its listener. Returns true if a terminal sent the signal. Always returns true on
   * Windows, where only the console sends signals.
   */
  take(signal: number): boolean;
}
