/**
 * A key with a limit has that many slots, and each slot is a key of the store, with its own lease, token and TTL. So
 * every store has them, and a dead holder's slot comes free like any lease.
 */

/** The highest limit: an attempt that finds all slots taken has asked for each. */
export const MAX_LIMIT = 1000;

/** The key of a slot in the store. Slot 0 is the key itself: a lease without a limit is one with the limit 1. */
export function slotKey(key: string, slot: number): string {
  return slot === 0 ? key : `${key}#slot${slot}`;
}

/** The keys of all slots, in their order. */
export function slotKeys(key: string, limit: number): readonly string[] {
  const keys = [key];
  for (let slot = 1; slot < limit; slot++) keys.push(slotKey(key, slot));
  return keys;
}

/** The numbers of all slots, in their order. */
export function allSlots(limit: number): readonly number[] {
  const slots = [];
  for (let slot = 0; slot < limit; slot++) slots.push(slot);
  return slots;
}

/** The list in its order, but from an element that chance decides: several processes then seldom begin with the same slot. */
export function fromAny<T>(list: readonly T[]): T[] {
  const first = Math.floor(Math.random() * list.length);
  return first === 0 ? [...list] : [...list.slice(first), ...list.slice(0, first)];
}
