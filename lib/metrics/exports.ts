import type { Metrics, WaitTimes } from './collect.js';
import { KIND_ATTRIBUTE, LOCK_ATTRIBUTE } from './instruments.js';

export function attributesOf({ kind, name }: Metrics): Record<string, string> {
  return { [KIND_ATTRIBUTE]: kind, [LOCK_ATTRIBUTE]: name };
}

/** For each range, the number of waits up to the upper bound `le`, in seconds. */
export function cumulative({ bounds, counts }: WaitTimes): { le: number | '+Inf'; count: number }[] {
  let total = 0;
  return counts.map((count, range) => ({ le: bounds[range] ?? '+Inf', count: (total += count) }));
}
