/**
 * A key with a limit of N has N slots. Each slot is a separate key in the store, with a separate lease, token
 * and TTL. So slots work in every store, and a dead holder's slot is freed when its TTL expires, like any
 * lease.
 */

/** The highest limit. If all slots are taken, an attempt has asked the store for each of them. */
export const MAX_LIMIT = 1000;

/**
 * The key of a slot in the store. Slot 0 has the key itself: a lease without a limit is the same as one with
 * the limit 1.
 */
export function slotKey(key: string, slot: number): string {
  return slot === 0 ? key : `${key}#slot${slot}`;
}

/** The keys of all slots in the store, from slot 0 up. */
export function slotKeys(key: string, limit: number): readonly string[] {
  const keys = [key];
  for (let slot = 1; slot < limit; slot++) keys.push(slotKey(key, slot));
  return keys;
}

/** The numbers of all slots, from 0 up. */
export function allSlots(limit: number): readonly number[] {
  const slots = [];
  for (let slot = 0; slot < limit; slot++) slots.push(slot);
  return slots;
}

/** Rotates the list by a random number of places, so that processes rarely start with the same slot. */
export function fromAny<T>(list: readonly T[]): T[] {
  const first = Math.floor(Math.random() * list.length);
  return first === 0 ? [...list] : [...list.slice(first), ...list.slice(0, first)];
}
