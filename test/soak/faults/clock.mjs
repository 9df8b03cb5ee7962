import os from 'node:os';

/** Milliseconds on a clock that all processes of the machine share, and that is never set. */
export const now = () => Number(process.hrtime.bigint()) / 1e6;

/** How many processes may want each processor, on the average of a minute, before lengths of time must grow. */
const BEARABLE = 4;

/**
 * The factor by which lengths of time grow on a machine that is busy with more than this: what is granted for 300 ms is lost before
 * anybody can use it where each step waits as long for a processor. 1 where the system knows no average.
 */
export const slowness = () => Math.max(1, os.loadavg()[0] / os.availableParallelism() / BEARABLE);

/** Milliseconds of undisturbed work. */
export const WHILE = 400;
