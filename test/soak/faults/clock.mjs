/** Milliseconds on a clock that all processes of the machine share, and that nobody sets. */
export const now = () => Number(process.hrtime.bigint()) / 1e6;

/** Milliseconds of undisturbed work. */
export const WHILE = 400;
