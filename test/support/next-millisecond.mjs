/**
 * Blocks until the system's clock shows another millisecond. A store that loses its data takes longer than that, and its
 * tokens count on it: those of MongoDB and SQLite are the clock in milliseconds, times a million.
 */
export function nextMillisecond() {
  for (const from = Date.now(); Date.now() === from;);
}
