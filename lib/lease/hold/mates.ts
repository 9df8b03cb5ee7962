/** The reason if a hold ended because another hold of its lease was lost. */
export const MATE_LOST = 'the lease of another of its keys was lost';

/** A hold, as the others of its lease see it. */
export interface Mate {
  readonly ended: boolean;
  /** Whether it may be renewed before it is due: no renewal of it is pending, and it is renewed at all. */
  readonly canRenew: boolean;
  renewNow(): void;
}

/** The holds of a lease of several keys, by each of them. Most leases have one key, and their holds need no field for it. */
const matesOf = new WeakMap<Mate, readonly Mate[]>();

/** From now on these holds are renewed together. */
export function unite(holds: readonly Mate[]): void {
  for (const hold of holds) {
    // Leases may share a hold.
    const before = (matesOf.get(hold) ?? []).filter((mate) => !mate.ended);
    matesOf.set(hold, [...new Set([...before, ...holds])]);
  }
}

/**
 * The hold is due to be renewed: renews all of its lease, so that they go on having one deadline. What `together` runs
 * reaches the store in one round trip, if the store can.
 */
export function renewTogether(hold: Mate, together: (body: () => void) => void): void {
  const mates = matesOf.get(hold);
  if (mates === undefined) {
    hold.renewNow();
    return;
  }
  together(() => {
    for (const mate of mates) if (mate === hold || mate.canRenew) mate.renewNow();
  });
}
