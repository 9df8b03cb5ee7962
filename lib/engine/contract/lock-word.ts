/**
 * The bits of a stripe's word, a 32-bit integer in shared memory. `native/core/table/lock_word.h` has the
 * same table; a test compares the constants.
 *
 * | word                          | meaning                                                                 |
 * | ----------------------------- | ----------------------------------------------------------------------- |
 * | `0`                           | free                                                                    |
 * | `slot`                        | held exclusively by the thread with that slot                           |
 * | `SHARED + n`                  | held shared, n times in total                                           |
 * | held `+ QUEUED`               | threads wait, so a release goes through the engine                      |
 * | free or shared `+ ABANDONED`  | the thread of an earlier holder ended without releasing                 |
 * | `slot + ABANDONED`            | the same; `slot` was notified of it, and its release clears `ABANDONED` |
 * | `slot + LOCAL`                | async acquisitions of the holder's thread wait in its JavaScript        |
 * | `SHARED + n`, with permits    | n permits of the stripe are in use                                      |
 * | permits `+ ABANDONED`         | the thread of an earlier permit holder ended without releasing          |
 * | `ABANDONED + DEATH_REPORTED`  | the same, and a later permit holder was notified of that end            |
 */
export const QUEUED = 0x8000_0000 | 0;
export const ABANDONED = 0x4000_0000;
export const SHARED = 0x2000_0000;
/** Used only by the native engine: see `native/local-waits.ts`. */
export const LOCAL = 0x1000_0000;
/** Used only by the native engine, in words that count permits. */
export const DEATH_REPORTED = LOCAL;
/** The bits that contain the holder's slot or, with {@link SHARED}, the number of holds. */
export const HOLDER_MASK = 0x0fff_ffff;
