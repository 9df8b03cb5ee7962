import { FastPath } from '../engine/fast-path.js';
import { isPair, type Keys } from './key-set.js';

const { takeMany, takePair, giveBackMany, giveBackPair } = FastPath;

/** {@link FastPath.takeMany} for a set. Calls nothing after the last change of a word (keeps T1). */
export function takeSet(path: FastPath, set: Keys, code: number): number {
  if (isPair(set)) return takePair(path, set.low, set.high, code);
  return takeMany(path, set.stripes, code);
}

/** {@link FastPath.giveBackMany} for a set. Calls nothing after the last change of a word (keeps T1). */
export function giveBackSet(path: FastPath, set: Keys, count: number, code: number): number {
  if (isPair(set)) return giveBackPair(path, set.low, set.high, count, code);
  return giveBackMany(path, set.stripes, count, code);
}
