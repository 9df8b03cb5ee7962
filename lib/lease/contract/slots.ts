/**
 * A key with a limit of N has N slots. Each slot is a separate key in the store (its store key), with a
 * separate lease, token and TTL. So slots work in every store. If a holder dies, its slot becomes free
 * when the TTL of its lease expires.
 */

/**
 * The highest limit. It bounds the cost of an attempt: if all slots are taken, the attempt has sent a request
 * for each of them.
 */
export const MAX_LIMIT = 1000;

/**
 * The key in the store for a slot. The store key of slot 0 is `key` itself, so a lease without a limit is the
 * same as a lease with the limit 1.
 */
export function slotKey(key: string, slot: number): string {
  return slot === 0 ? key : `${key}#slot${slot}`;
}

/** The keys in the store for all slots, starting with slot 0. */
export function slotKeys(key: string, limit: number): readonly string[] {
  return allSlots(limit).map((slot) => slotKey(key, slot));
}

/** The numbers of all slots, starting with 0. */
export function allSlots(limit: number): readonly number[] {
  const slots = [];
  for (let slot = 0; slot < limit; slot++) slots.push(slot);
  return slots;
}

/**
 * Returns a copy of the list, rotated so that it starts with the item at the index `first`. By default, the
 * index is random, so processes that each try all slots rarely start with the same slot.
 */
export function fromAny<T>(list: readonly T[], first = Math.floor(Math.random() * list.length)): T[] {
  return first === 0 ? [...list] : [...list.slice(first), ...list.slice(0, first)];
}
