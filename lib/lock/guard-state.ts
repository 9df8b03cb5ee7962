// What a guard's state says: its mode's code, flags, and above them its only stripe, or how many of several are taken.

import { MODE_MASK } from '../engine/contract/mode.js';

export const MODE = MODE_MASK;
export const HELD = 4;
export const ABANDONED = 8;
export const TRACED = 16;
/** The keys are `Keys`. */
export const MANY = 32;
export const FLAGS = 63;
export const NUMBER_SHIFT = 6;
export const TRACED_OR_MANY = TRACED | MANY;
/** Separate functions handle guards with any of these flags. So the code for the others stays short, and V8 inlines it. */
export const NOT_PLAIN = MODE | HELD | TRACED | MANY;
