/** Which signals a terminal has sent, as Ctrl+C does, and which a process. */
export interface TerminalSignals {
  /** Counts the deliveries that a terminal sends. This thread must already have a listener for the signal. */
  count(signal: number): void;
  /** Call it once in the listener. True if a terminal sent the signal, and on Windows, where only the console sends any. */
  take(signal: number): boolean;
}
