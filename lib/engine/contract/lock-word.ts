/**
 * The bits of a stripe's 32-bit word. `native/core/table/lock_word.h` has the same table; a test compares the two.
 *
 * | word                          | meaning                                                   |
 * | ----------------------------- | --------------------------------------------------------- |
 * | `0`                           | free                                                      |
 * | `slot`                        | held exclusively by the thread with that slot             |
 * | `SHARED + n`                  | held shared, n times in total                             |
 * | held `+ QUEUED`               | threads wait, so a release goes through the engine        |
 * | free or shared `+ ABANDONED`  | an earlier holder's thread ended without releasing        |
 * | `slot + ABANDONED`            | the same, reported to this holder; cleared by its release |
 * | `slot + LOCAL`                | tasks of that thread wait in its JavaScript               |
 * | `SHARED + n`, of permits      | `n` of the limit's permits are taken                      |
 * | the same `+ ABANDONED + DEATH_REPORTED` | a death that was reported to a later holder               |
 */
export const QUEUED = 0x8000_0000 | 0;
export const ABANDONED = 0x4000_0000;
export const SHARED = 0x2000_0000;
/** Native engine only; see `native/local-waits.ts`. */
export const LOCAL = 0x1000_0000;
/** Native engine only, in words of permits. */
export const DEATH_REPORTED = LOCAL;
/** The owner's slot, or with {@link SHARED} the number of shared holds. */
export const HOLDER_MASK = 0x0fff_ffff;
