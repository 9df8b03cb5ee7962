/** `FileFault` in `native/core/base/file_error.h` has the same numbers and describes them. */
export const NONE = 0;
export const OPEN = 1;
export const KIND = 2;
export const FILE_SYSTEM = 3;
export const FOREIGN = 4;
export const VERSION = 5;
export const BUSY = 6;
export const REPLACED = 7;
export const LOCK = 8;
export const SYSTEM = 9;
export const FILES = 10;
export const DAMAGED = 11;
export const PARTS = 12;
export const UNSAFE = 13;
export const LIMIT = 14;
