/** `FileAccess` in `native/core/files/lock_file.h` has the same numbers and describes them. */
export const USER = 0;
export const GROUP = 1;
export const ALL = 2;
