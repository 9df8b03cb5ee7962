/** Milliseconds, on a clock that all threads and all processes of a machine share. */
export function clock() {
  return Number(process.hrtime.bigint()) / 1e6;
}
