// Handing a key from one thread to another that waits for it.

const abilityOf = /** @type {const} */ ({ sync: 'sync', async: 'run' });

/**
 * @param {'sync' | 'async'} giver
 * @param {'sync' | 'async'} taker
 * @returns {import('./index.mjs').HandOverWorkload}
 */
function workload(giver, taker) {
  return {
    name: `hand-over, ${giver} → ${taker}`,
    group: 'hand-over',
    runner: 'hand-over',
    needs: ['threads', abilityOf[giver], abilityOf[taker]],
    floors: [],
    keys: 1,
    stripes: 1024,
    giver,
    taker,
    // Long enough that a spinning taker has gone to sleep.
    head: 1,
  };
}

export const handOver = [workload('sync', 'sync'), workload('async', 'async'), workload('sync', 'async')];
