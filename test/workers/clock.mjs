/** The time in milliseconds, on a clock that all threads and processes of a machine share. */
export function clock() {
  return Number(process.hrtime.bigint()) / 1e6;
}
