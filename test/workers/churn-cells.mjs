// The cells in shared memory for each stripe while threads come and go.

export const CELLS = 8;
/** The number of the thread in an exclusive section, or 0. */
export const OWNER = 0;
/**
 * Plain counters that a section increments one by one: while they differ, a thread is in its section, or died there.
 */
export const FIRST = 1;
export const SECOND = 2;
/** Sections that saw another thread in its section. */
export const FALSE_GRANTS = 3;
/** Sections after an unfinished one whose guard was not abandoned. */
export const UNTOLD = 4;
/** For the first stripe only: threads that started to work, finished sections, failed acquisitions. */
export const STARTED = 5;
export const SECTIONS = 6;
export const FAILURES = 7;
