// What is in shared memory under each stripe while threads come and go.

export const CELLS = 8;
/** The number of the thread that is at work exclusively, set and reset within its section. */
export const OWNER = 0;
/** Plain counters that a section moves on one after the other: while they differ, somebody is at work, or died. */
export const FIRST = 1;
export const SECOND = 2;
/** Sections in which somebody else was seen at work. */
export const FALSE_GRANTS = 3;
/** Sections whose guard did not tell that an earlier one was never finished. */
export const UNTOLD = 4;
/** Under the first stripe only: threads that got going, sections that were finished, acquisitions that failed. */
export const STARTED = 5;
export const SECTIONS = 6;
export const FAILURES = 7;
