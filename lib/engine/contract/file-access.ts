/** As `FileAccess` of `native/core/files/lock_file.h`, which says what each of them means. */
export const USER = 0;
export const GROUP = 1;
export const ALL = 2;
