// For `node --import`: fills the arena before a program starts.
import { fillArena } from './full-arena.mjs';

fillArena();
