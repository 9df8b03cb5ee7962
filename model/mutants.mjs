// Faults of the model, one for each promise. Each must be found, or the model or its checks are too weak.

const ASSERTION = 'assertion violated';
const DEAD_END = 'invalid end state';
const CYCLE = 'acceptance cycle';

/**
 * For each mark above a line: what stands there instead, the configuration that must find it, and what that
 * must report.
 *
 * @type {Readonly<Record<string, readonly [fault: string, by: string, as: string]>>}
 */
export const mutants = {
  // ── sync_wait.pml: the fast path, and a blocked thread ──
  'I1-takes-unseen': [
    'ok = (shared[who] -> (word[s] == 0 || (word[s] & ~HOLDER) == SHARED) : true);',
    'exclusive',
    ASSERTION,
  ],
  'I3-last-share-wakes-none': [
    'ok = (shared[who] -> holderOf(word[s]) > 0 : word[s] == slotOf(t));',
    'readers',
    DEAD_END,
  ],
  'park-drops-permit': [
    ':: permit[t] = false; atomic { permit[t] -> permit[t] = false }',
    'exclusive',
    DEAD_END,
  ],
  'blocked-keeps-grants': ['skip', 'pass-over', DEAD_END],

  // ── table.pml: queues, what a release does, the clock ──
  'I3-joins-past-writer': ['ok = true;', 'fairness-readers', CYCLE],
  'I3-links-unseen': ['next = (ok -> taking(seen, w) : seen);', 'exclusive', ASSERTION],
  'death-rolled-back': ['left = (how != DIE -> left & ~ABANDONED : left)', 'two-stripes-death', ASSERTION],
  'death-untold': ['skip', 'death', ASSERTION],
  'I4-designates-twice': [':: false -> skip', 'exclusive', ASSERTION],
  'I3-joint-drops-queued': ['next = ((next | SHARED) + n);', 'death-of-3', ASSERTION],
  'fairness-restarts': ['', 'fairness-async', CYCLE],
  'fairness-not-started': [':: Q(s, 0) == 0 -> skip', 'clock', ASSERTION],
  'I5-looks-once': [':: true -> break', 'two-stripes-of-3', ASSERTION],
  'I5-withdraws-granted': ['done = true;', 'exclusive', ASSERTION],
  'I4-passes-no-turn-on': [':: done -> atomic { seen = 0; unlockShard(p) }', 'exclusive', ASSERTION],
  'I2-queues-unseen': [':: !isFree(seen) ->', 'exclusive', DEAD_END],
  'I5-overtakes-and-stays': [':: done -> skip', 'async-both', ASSERTION],
  'I1-share-counted-early': [
    'sharesOf(ownerOf(w), s) = sharesOf(ownerOf(w), s) + shared[w]',
    'async-shared',
    ASSERTION,
  ],

  // ── async_waits.pml, revocation.pml: grants that are not collected ──
  'graph-own-undelivered': ['reclaiming = false;', 'pass-over', ASSERTION],
  'graph-waits-for-itself': ['refused = false;', 'nested', DEAD_END],
  'wake-of-earlier-thread': ['', 'async-death', DEAD_END],
  'I3-passed-over-for-good': ['', 'pass-over', ASSERTION],
  'cancelled-keeps-grant': ['', 'pass-over', ASSERTION],
  'I6-keeps-a-part': [':: false ->', 'two-stripes-async', ASSERTION],
  'I7-hands-on-to-absent': ['#define isOut(w) (isAsync(w) && blocked[ownerOf(w)])', 'revoke', ASSERTION],
  'I7-takes-what-was-taken': [':: true -> unlist()', 'revoke', ASSERTION],
  'I3-back-unseen': ['atomic { seen = 0; unlockShard(low(victim)) };', 'revoke', ASSERTION],
  'I7-stays-absent': ['atomic { COME };', 'revoke', DEAD_END],
  'death-of-one-share': ['leave(r, DIE, sharesOf(t, r) > 0, 1);', 'async-death', ASSERTION],

  // ── wait_graph.pml: deadlocks ──
  'graph-undelivered': ['found = (inGraph[i] -> found : found & ~bit(i));', 'graph-async', ASSERTION],
  'graph-granted': [':: i == THREADS -> break', 'graph-timeouts', ASSERTION],
  'graph-writer-between': [':: false -> skip', 'graph-shared', DEAD_END],
  'graph-one-look': [
    'refused = refused || (found & bit(path[(n == r -> 0 : n + 1)]));',
    'graph-timeouts',
    ASSERTION,
  ],
  'graph-of-two': [':: (followed & bit(n)) || r == 1 -> n = 0', 'graph', DEAD_END],

  // ── local_waits.pml: hand-over within a thread ──
  'I8-plain-store': ['ok = heldBy(word[0], t);', 'local', ASSERTION],
  'I9-serves-without-a-hold': [
    '#define willBeServed (armed || handing || standIn != 0 || heldBy(word[0], t))',
    'local',
    ASSERTION,
  ],
  'I9-not-replaced': [':: true -> standIn = 0', 'local-give-up', ASSERTION],
  'I9-no-stand-in': [':: false -> skip', 'local', ASSERTION],
  'I9-delivers-unarmed': [':: false -> skip', 'local-give-up', ASSERTION],
  'I10-stand-in-last': [':: false -> skip', 'local-order', ASSERTION],
  'I11-keeps-the-stripe': [':: queued != 0 && true ->', 'local-fairness', CYCLE],
  'death-not-passed-on': ['', 'local-abandoned', ASSERTION],
  'death-plain-store': [':: seen & ABANDONED -> word[0] = seen & ~ABANDONED', 'local-reborn', ASSERTION],

  // ── permits.pml ──
  'P1-takes-one-more': [
    'ok = word == 0 || (word > SHARED && word <= (SHARED | LIMIT));',
    'permits',
    ASSERTION,
  ],
  'P2-sleeps-beside-permit': [':: !isFree(seen) && word == seen ->', 'permits', ASSERTION],
  'P2-waits-for-designated': [':: designated != 0 -> skip', 'permits-of-4', ASSERTION],
  'P2-joint-drops-queued': ['skip', 'permits-together', ASSERTION],
  'P1-dies-with-one': ['leave(DIE, 1);', 'permits-told', ASSERTION],
  'P3-reported-forever': ['skip;', 'permits-told', ASSERTION],
  'P3-rolled-back-saw-it': [
    'left = (how == ROLL_BACK -> left : left & ~DEATH_REPORTED)',
    'permits-told',
    ASSERTION,
  ],
};
