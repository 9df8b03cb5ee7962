// From one thread's hands into another's that waits for it.

function workload(giver, taker) {
  return {
    name: `hand-off, ${giver} → ${taker}`,
    group: 'hand-off',
    runner: 'hand-off',
    needs: ['threads', ...new Set([giver, taker].map((kind) => (kind === 'sync' ? 'sync' : 'run')))],
    floors: [],
    keys: 1,
    stripes: 1024,
    /** 'sync': blocks its thread. 'async': waits on its event loop. */
    giver,
    taker,
    /** Milliseconds for which the taker has been waiting: long enough for a spinning one to have gone to sleep. */
    head: 1,
  };
}

export const handOff = [workload('sync', 'sync'), workload('async', 'async'), workload('sync', 'async')];
