// Faults that are put into the model one at a time. Each must be found by the configuration that it names. If one is not
// found, the model or its checks are too weak.

const ASSERTION = 'assertion violated';
const DEAD_END = 'invalid end state';
const CYCLE = 'acceptance cycle';

/**
 * @typedef {object} Mutation
 * @property {string} name What it does, as a sentence.
 * @property {readonly (readonly [file: string, find: string, replace: string])[]} edits The text to find occurs exactly
 *   once.
 * @property {string} by The configuration that must find it.
 * @property {string} as What the search must report.
 */

/** @type {Mutation[]} */
export const mutations = [
  // ── lib/engine/fast-path.ts ──
  {
    name: 'take: stores without looking',
    edits: [
      [
        'sync_wait.pml',
        'ok = (shared[who] -> (word[s] == 0 || (word[s] & ~HOLDER) == SHARED) : word[s] == 0)',
        'ok = (shared[who] -> (word[s] == 0 || (word[s] & ~HOLDER) == SHARED) : true)',
      ],
    ],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'takeShared: ignores ABANDONED',
    edits: [
      ['sync_wait.pml', '(word[s] & ~HOLDER) == SHARED)', '(word[s] & ~(HOLDER | ABANDONED)) == SHARED)'],
    ],
    by: 'death-of-3',
    as: ASSERTION,
  },
  {
    name: 'takeShared: ignores QUEUED',
    edits: [['sync_wait.pml', '(word[s] & ~HOLDER) == SHARED)', '(word[s] & ~(HOLDER | QUEUED)) == SHARED)']],
    by: 'fairness-readers',
    as: CYCLE,
  },
  {
    name: 'giveBack: a plain store frees',
    edits: [
      [
        'sync_wait.pml',
        '|| holderOf(word[s]) > 1 : word[s] == slotOf(t))',
        '|| holderOf(word[s]) > 1 : true)',
      ],
    ],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'giveBackShared: the last one leaves without asking who waits',
    edits: [['sync_wait.pml', 'holderOf(word[s]) > 1 :', 'holderOf(word[s]) > 0 :']],
    by: 'readers',
    as: DEAD_END,
  },
  {
    name: 'giveBack: does not call the core when its exchange fails',
    edits: [['sync_wait.pml', '     leave(r, RELEASE, shared[who], 1);\n', '']],
    by: 'exclusive',
    as: DEAD_END,
  },

  // ── Table: taking ──
  {
    name: 'tryTake: does not tell of ABANDONED',
    edits: [['table.pml', '  told[w] = told[w] || (word[s] & ABANDONED);\n', '']],
    by: 'death',
    as: ASSERTION,
  },
  {
    name: 'tryTake: shares past QUEUED',
    edits: [['table.pml', ' && !(word[s] & QUEUED));', ');']],
    by: 'fairness-readers',
    as: CYCLE,
  },
  {
    name: 'mayTake: shares past an exclusive waiter',
    edits: [['table.pml', '     ok = (Q(s, at) == 0);', '     ok = true;']],
    by: 'fairness-readers',
    as: CYCLE,
  },
  {
    name: 'takeOrLink: forgets QUEUED',
    edits: [['table.pml', '(designated[s] -> seen : seen | QUEUED)', 'seen']],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'takeOrLink: trusts that a queue that is not empty has QUEUED set',
    edits: [
      [
        'table.pml',
        '(designated[s] -> seen : seen | QUEUED)',
        '(designated[s] || Q(s, 0) -> seen : seen | QUEUED)',
      ],
    ],
    by: 'pass-over',
    as: ASSERTION,
  },
  {
    name: 'takeOrLink: a plain store sets QUEUED',
    edits: [
      ['table.pml', ':: next != seen && word[s] != seen -> seen = word[s]; lose()', ':: false -> skip'],
      ['table.pml', ':: next == seen || word[s] == seen ->', ':: true ->'],
    ],
    by: 'exclusive',
    as: DEAD_END,
  },

  // ── Table: leaving ──
  {
    name: 'afterLeaving: a release keeps ABANDONED',
    edits: [['table.pml', 'left = (how == RELEASE -> left & ~ABANDONED : left)', 'skip']],
    by: 'death',
    as: ASSERTION,
  },
  {
    name: 'afterLeaving: a roll-back drops ABANDONED',
    edits: [['table.pml', 'left = (how == RELEASE ->', 'left = (how != DIE ->']],
    by: 'two-stripes-death',
    as: ASSERTION,
  },
  {
    name: 'afterLeaving: the last of those who share drops ABANDONED',
    edits: [['table.pml', '-> seen & ~(SHARED | HOLDER) :', '-> 0 :']],
    by: 'death',
    as: ASSERTION,
  },
  {
    name: 'afterLeaving: a death leaves no flag',
    edits: [['table.pml', 'left = (how == DIE && !isSharedHold -> left | ABANDONED : left)', 'skip']],
    by: 'death',
    as: ASSERTION,
  },
  {
    name: 'leave: a plain store changes the word',
    edits: [
      [
        'table.pml',
        ':: word[s] == seen ->\n            word[s] = next;\n            dirty',
        ':: true ->\n            word[s] = next;\n            dirty',
      ],
      [
        'table.pml',
        '         :: else ->\n            seen = word[s];\n            left = 0;',
        '         :: false ->\n            seen = word[s];\n            left = 0;',
      ],
    ],
    by: 'death-of-3',
    as: ASSERTION,
  },
  {
    name: 'leave: frees the stripe, then grants it in a second step',
    edits: [
      ['table.pml', 'next = next | slotOf(ownerOf(n)) |', 'next = next |'],
      [
        'table.pml',
        ':: grants != 0 -> grantNext(s)',
        ':: grants != 0 -> word[s] = word[s] | slotOf(grants >> 1); grantNext(s)',
      ],
    ],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'plan: designates a second waiter',
    edits: [['table.pml', ':: designated[s] != 0 -> skip', ':: false -> skip']],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'plan: drops QUEUED while the stripe stays held',
    edits: [['table.pml', '        next = next | QUEUED\n', '        skip\n']],
    by: 'readers',
    as: ASSERTION,
  },
  {
    name: 'planJoint: forgets QUEUED for the writer behind',
    edits: [['table.pml', '+ n) | (Q(s, at) != 0 -> QUEUED : 0)', '+ n)']],
    by: 'death-of-3',
    as: ASSERTION,
  },
  {
    name: 'planJoint: counts one for all that enter',
    edits: [['table.pml', '((next | SHARED) + n)', '((next | SHARED) + 1)']],
    by: 'readers',
    as: ASSERTION,
  },
  {
    name: 'planAlone: forgets QUEUED for those behind',
    edits: [['table.pml', ' | (Q(s, 1) != 0 -> QUEUED : 0)\n  :: else', '\n  :: else']],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'planAlone: never hands over',
    edits: [
      ['table.pml', '#define mayBeFair        fairnessDue', '#define mayBeFair        false'],
      ['table.pml', '#define mayBeUnfair      !fairnessDue', '#define mayBeUnfair      true'],
    ],
    by: 'fairness',
    as: CYCLE,
  },
  {
    name: 'planAlone: a grant out of turn, to its own thread, restarts the clock',
    edits: [
      [
        'table.pml',
        '           n = waiterAt(s, at);\n           noteTurn(false);\n',
        '           n = waiterAt(s, at);\n',
      ],
    ],
    by: 'fairness-async',
    as: CYCLE,
  },
  {
    name: 'planAlone: a hand-over to the head does not restart the clock',
    edits: [
      [
        'table.pml',
        '  n = waiterAt(s, at);\n  noteTurn(true);\n',
        '  n = waiterAt(s, at);\n  noteTurn(false);\n',
      ],
    ],
    by: 'clock',
    as: ASSERTION,
  },
  {
    name: 'takeOrLink: the first waiter does not start the clock',
    edits: [
      [
        'table.pml',
        '               :: Q(s, 0) == 0 -> restartClock\n',
        '               :: Q(s, 0) == 0 -> skip\n',
      ],
    ],
    by: 'clock',
    as: ASSERTION,
  },
  {
    name: 'requeue: the first waiter does not start the clock',
    edits: [
      ['table.pml', '  :: Q(low(who), 0) == 0 -> restartClock\n', '  :: Q(low(who), 0) == 0 -> skip\n'],
    ],
    by: 'clock-async',
    as: ASSERTION,
  },
  {
    name: 'unlinkServed: does not restart the clock',
    edits: [['table.pml', '  designated[s] = 0;\n  restartClock;', '  designated[s] = 0;']],
    by: 'clock',
    as: ASSERTION,
  },
  {
    name: 'carryOut: does not tell of ABANDONED',
    edits: [['table.pml', '     told[k] = told[k] || (next & ABANDONED);\n', '']],
    by: 'death',
    as: ASSERTION,
  },
  {
    name: 'carryOut: wakes the designated waiter before its state says so',
    edits: [
      [
        'table.pml',
        '  :: atomic {\n       toDesignate != 0 ->\n',
        '  :: toDesignate != 0 ->\n     permit[toDesignate - 1] = true;\n     atomic {\n',
      ],
      ['table.pml', '#else\n       wakes = wakes | bit(n);\n', '#else\n'],
    ],
    by: 'exclusive',
    as: DEAD_END,
  },
  {
    name: 'complete: wakes the granted waiter before its state says so',
    edits: [
      [
        'table.pml',
        '#if STRIPES == 1\n  atomic {\n    firstOf(grants);\n',
        '#if STRIPES == 1\n  firstOf(grants);\n  permit[k] = true;\n  atomic {\n',
      ],
      ['table.pml', '#else\n  wakes = wakes | bit(w)\n', '#else\n  skip\n'],
    ],
    by: 'exclusive',
    as: DEAD_END,
  },
  {
    name: 'proceed: gives the shard back before the waiter is complete',
    edits: [
      [
        'table.pml',
        '  atomic {\n    if\n    :: ok -> complete(k)\n',
        '  atomic { if :: grants == 0 -> unlockShard(s) :: else -> skip fi };\n  atomic {\n    if\n    :: ok -> complete(k)\n',
      ],
      ['table.pml', '    n = 0;\n    unlockIfDone(s)\n', '    n = 0;\n    k = 0;\n    ok = false\n'],
    ],
    by: 'two-stripes-death',
    as: ASSERTION,
  },
  {
    name: 'proceed: moves the waiter before the next shard is locked',
    edits: [
      [
        'table.pml',
        '  :: !ok ->\n     atomic {\n       if\n       :: shardOf(n)',
        '  :: !ok ->\n     setPosition(k, n);\n     atomic {\n       if\n       :: shardOf(n)',
      ],
    ],
    by: 'two-stripes-of-3',
    as: ASSERTION,
  },

  // ── Table: withdrawing, trying ──
  {
    name: 'lockFor: does not look again',
    edits: [['table.pml', '       :: position(who) == p -> break\n', '       :: true -> break\n']],
    by: 'two-stripes-of-3',
    as: ASSERTION,
  },
  {
    name: 'withdraw: does not look whether it was granted',
    edits: [['table.pml', '    done = (state[who] != GRANTED);', '    done = true;']],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'withdraw: stays designated',
    edits: [['table.pml', '       designated[p] = (designated[p] == who + 1 -> 0 : designated[p]);\n', '']],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'withdraw: does not pass the designation on',
    edits: [
      [
        'table.pml',
        '  :: done -> leaveLocked(p, STAY, false, 0)\n',
        '  :: done -> atomic { seen = 0; unlockShard(p) }\n',
      ],
    ],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'retryDesignated: sleeps without setting QUEUED',
    edits: [['table.pml', '          word[s] = seen | QUEUED;\n', '']],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'retryDesignated: a plain store sets QUEUED',
    edits: [['table.pml', ':: !isFree(seen) && word[s] == seen ->', ':: !isFree(seen) ->']],
    by: 'exclusive',
    as: DEAD_END,
  },
  {
    name: 'retryDesignated: does not look whether the stripe is free',
    edits: [['table.pml', ':: !isFree(seen) && word[s] == seen ->', ':: word[s] == seen ->']],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'retryDesignated: stays designated while it sleeps',
    edits: [
      [
        'table.pml',
        '          designated[s] = 0;\n          state[who] = WAITING;\n          seen = 0;',
        '          state[who] = WAITING;\n          seen = 0;',
      ],
    ],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'unlinkServed: does not set QUEUED for those behind',
    edits: [
      [
        'table.pml',
        '  :: ok ->\n     leaveLocked(p, STAY, false, 0);\n     done = true',
        '  :: ok ->\n     atomic { seen = 0; unlockShard(p) };\n     done = true',
      ],
    ],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'unlinkServed: stays designated',
    edits: [['table.pml', '  designated[s] = 0;\n  restartClock;', '  restartClock;']],
    by: 'exclusive',
    as: ASSERTION,
  },
  {
    name: 'overtakeDesignated: stays in the queue',
    edits: [
      ['table.pml', '    :: done -> removeFrom(p, who); state[who] = TAKING\n', '    :: done -> skip\n'],
    ],
    by: 'async-both',
    as: ASSERTION,
  },
  {
    name: 'rollBack: does not grant what it gives back',
    edits: [
      [
        'sync_wait.pml',
        ':: done -> done = false; LEAVE_GRAPH rollBack(t, position(t)); break',
        ':: done -> done = false; break',
      ],
    ],
    by: 'two-stripes-death',
    as: ASSERTION,
  },

  // ── SyncWait, Parker ──
  {
    name: 'park: drops the permit before it sleeps',
    edits: [
      [
        'sync_wait.pml',
        '           :: atomic { permit[t] -> permit[t] = false }\n',
        '           :: permit[t] = false; atomic { permit[t] -> permit[t] = false }\n',
      ],
    ],
    by: 'exclusive',
    as: DEAD_END,
  },
  {
    name: 'wait: an interrupted thread does not withdraw',
    edits: [
      [
        'sync_wait.pml',
        '        :: patience == TIMED -> giveUp = true\n        :: mortal -> giveUp = true; ending = true\n',
        '        :: patience == TIMED -> giveUp = true\n        :: mortal -> ending = true; break\n',
      ],
    ],
    by: 'death',
    as: ASSERTION,
  },
  {
    name: 'wait: does not reclaim what its thread is granted meanwhile',
    edits: [['sync_wait.pml', 'reclaiming = !refused && t < ASYNC && hasReady(t)', 'skip']],
    by: 'pass-over',
    as: DEAD_END,
  },
  {
    name: 'holdsForGood: believes a grant that is not delivered',
    edits: [['async_waits.pml', 'reclaiming = (undelivered[t] != 0);', 'reclaiming = false;']],
    by: 'pass-over',
    as: ASSERTION,
  },

  {
    name: 'holdsForGood: does not lock the shard',
    edits: [
      [
        'async_waits.pml',
        '          lockShard(i);\n          reclaiming = (undelivered[t] != 0);\n          refused = !reclaiming && heldBy(word[i], t);\n          unlockShard(i)\n',
        '          reclaiming = (undelivered[t] != 0);\n          refused = !reclaiming && heldBy(word[i], t)\n',
      ],
    ],
    by: 'pass-over',
    as: ASSERTION,
  },
  {
    name: 'waitsForItself: does not look at what it holds',
    edits: [['async_waits.pml', 'refused = !reclaiming && heldBy(word[i], t);', 'refused = false;']],
    by: 'nested',
    as: DEAD_END,
  },

  // ── Participant ──
  {
    name: 'start: a slot used again believes that a wake is under way',
    edits: [['stripe_word.pml', '       waking[t] = false;\n', '']],
    by: 'async-death',
    as: DEAD_END,
  },
  {
    name: 'passOver: does not look again',
    edits: [
      [
        'table.pml',
        '     :: isOut(waiterAt(s, at)) -> at++\n     :: else -> break\n',
        '     :: true -> at++\n',
      ],
    ],
    by: 'pass-over',
    as: ASSERTION,
  },
  {
    name: 'passOver: leaves no note',
    edits: [['table.pml', '     passedOver[ownerOf(waiterAt(s, at))] = true;\n', '']],
    by: 'pass-over',
    as: ASSERTION,
  },
  {
    name: 'block: reclaims before it is seen to block',
    edits: [
      ['async_waits.pml', '       blocked[t] = true;\n', ''],
      ['sync_wait.pml', '     waitsForItself();\n', '     blocked[t] = true;\n     waitsForItself();\n'],
    ],
    by: 'pass-over',
    as: DEAD_END,
  },
  {
    name: 'unblock: looks for notes before it is seen to go on',
    edits: [
      [
        'async_waits.pml',
        '     blocked[t] = false;\n     atomic {\n       goOn = passedOver[t] && pending;\n       passedOver[t] = false\n     };\n',
        '     atomic {\n       goOn = passedOver[t] && pending;\n       passedOver[t] = false\n     };\n     blocked[t] = false;\n',
      ],
    ],
    by: 'pass-over',
    as: ASSERTION,
  },
  {
    name: 'unblock: does not resettle',
    edits: [['async_waits.pml', '     :: goOn -> resettle()\n', '     :: goOn -> goOn = false\n']],
    by: 'pass-over',
    as: ASSERTION,
  },
  {
    name: 'wakeReady: does not unpark a blocked thread',
    edits: [['table.pml', '     :: blocked[k] -> permit[k] = true\n', '     :: blocked[k] -> skip\n']],
    by: 'pass-over',
    as: DEAD_END,
  },
  {
    name: 'takeReady: lets itself be called again only after it took the list',
    edits: [
      [
        'async_waits.pml',
        'inline takeReady() {\n  waking[t] = false;\n  d_step',
        'inline takeReady() {\n  d_step',
      ],
      [
        'async_waits.pml',
        '    done = (ready[t] != 0);\n    ready[t] = 0\n  }\n}',
        '    done = (ready[t] != 0);\n    ready[t] = 0\n  };\n  waking[t] = false\n}',
      ],
    ],
    by: 'pass-over',
    as: DEAD_END,
  },

  // ── AsyncWaits ──
  {
    name: 'drop: keeps what was granted meanwhile',
    edits: [['async_waits.pml', '     rollBack(own, high(own) + 1);\n', '']],
    by: 'pass-over',
    as: ASSERTION,
  },
  {
    name: 'requeue: leaves no note for unblock',
    edits: [
      ['table.pml', '    passedOver[t] = true;\n    unlockShard(low(who))', '    unlockShard(low(who))'],
    ],
    by: 'pass-over',
    as: ASSERTION,
  },
  {
    name: 'reclaim: keeps what is granted in part',
    edits: [['async_waits.pml', ':: low(own) < high(own) ->', ':: false ->']],
    by: 'two-stripes-async',
    as: ASSERTION,
  },
  {
    name: 'release: nothing settles what it granted to its own thread',
    edits: [['async_waits.pml', 'settling = settling || (t < ASYNC && hasReady(t))', 'skip']],
    by: 'pass-over',
    as: DEAD_END,
  },
  {
    name: 'countTaken: counts shares for async waiters, too',
    edits: [
      [
        'table.pml',
        'sharesOf(ownerOf(w), s) + (shared[w] && !isAsync(w))',
        'sharesOf(ownerOf(w), s) + shared[w]',
      ],
    ],
    by: 'async-shared',
    as: ASSERTION,
  },

  // ── Revocation ──
  {
    name: 'revoke: the thread counts as absent only after the roll-back',
    edits: [
      ['revocation.pml', '  absent[actor] = true;\n', ''],
      [
        'revocation.pml',
        '       revoking[actor] = false;\n',
        '       absent[actor] = true;\n       revoking[actor] = false;\n',
      ],
    ],
    by: 'revoke',
    as: ASSERTION,
  },
  {
    name: 'revoke: says nothing to the thread',
    edits: [
      ['revocation.pml', '  dropped[actor] = true;\n', ''],
      ['revocation.pml', 'readies = (victim != 0 -> bit(actor) : 0);', 'readies = 0;'],
    ],
    by: 'revoke',
    as: DEAD_END,
  },
  {
    name: 'revoke: does not look again under the mutex of the ready list',
    edits: [
      ['revocation.pml', '       :: isRevocable(victim, from) -> unlist()\n', '       :: true -> unlist()\n'],
    ],
    by: 'revoke',
    as: ASSERTION,
  },
  {
    name: 'revoke: counts a grant as delivered before it rolls it back',
    edits: [
      [
        'revocation.pml',
        '        rollBack(victim, high(victim) + 1);\n        assert(undelivered[actor] > 0);\n        undelivered[actor]--;\n        CHANGED\n        done = false\n',
        '        undelivered[actor]--;\n        rollBack(victim, high(victim) + 1)\n',
      ],
    ],
    by: 'revoke',
    as: ASSERTION,
  },
  {
    name: 'revoke: does not count what it rolled back',
    edits: [['revocation.pml', '        undelivered[actor]--;\n', '']],
    by: 'revoke',
    as: ASSERTION,
  },
  {
    name: 'revoke: links the waiter, and does not see to it that it is served',
    edits: [
      [
        'revocation.pml',
        '  leaveLocked(low(victim), STAY, false, 0);\n',
        '  atomic { seen = 0; unlockShard(low(victim)) };\n',
      ],
    ],
    by: 'revoke',
    as: ASSERTION,
  },
  {
    name: 'revoke: gives the mutex back before the waiter is linked again',
    edits: [
      [
        'revocation.pml',
        '     :: victim != 0 -> requeueRevoked()\n',
        '     :: victim != 0 -> revoking[actor] = false; requeueRevoked()\n',
      ],
    ],
    by: 'revoke',
    as: ASSERTION,
  },
  {
    name: 'drop: does not take the mutex against revocation',
    edits: [['async_waits.pml', 'inline giveUpOwn() {\n  LOCK_OWN\n', 'inline giveUpOwn() {\n']],
    by: 'revoke',
    as: ASSERTION,
  },
  {
    name: 'reclaim: does not take the mutex against revocation',
    edits: [
      ['async_waits.pml', 'inline reclaim() {\n  LOCK_OWN\n', 'inline reclaim() {\n'],
      ['async_waits.pml', '  UNLOCK_OWN\n  looked = 0', '  looked = 0'],
    ],
    by: 'revoke-two-stripes',
    as: ASSERTION,
  },
  {
    name: 'eligible: an absent thread is handed more',
    edits: [['table.pml', ' || (absent[ownerOf(w)] && position(w) == low(w))', '']],
    by: 'revoke',
    as: ASSERTION,
  },
  {
    name: 'eligible: an absent thread is not handed what its waiter needs to be granted',
    edits: [['table.pml', '(absent[ownerOf(w)] && position(w) == low(w))', 'absent[ownerOf(w)]']],
    by: 'revoke-two-stripes',
    as: ASSERTION,
  },
  {
    name: 'take: stays absent',
    edits: [['revocation.pml', 'COME absent[t] = false', 'COME']],
    by: 'revoke',
    as: DEAD_END,
  },
  {
    name: 'take: does not resettle',
    edits: [['revocation.pml', '     :: goOn -> resettle()\n', '     :: goOn -> goOn = false\n']],
    by: 'revoke',
    as: ASSERTION,
  },
  {
    name: 'take: looks for notes before it is seen to be back',
    edits: [
      [
        'revocation.pml',
        '     atomic { COME absent[t] = false };\n     atomic {\n       goOn = passedOver[t] && pending;\n       passedOver[t] = false\n     };\n',
        '     atomic {\n       goOn = passedOver[t] && pending;\n       passedOver[t] = false\n     };\n     atomic { COME absent[t] = false };\n',
      ],
    ],
    by: 'revoke',
    as: ASSERTION,
  },
  {
    name: 'take: is back before it takes the ready list',
    edits: [
      [
        'async_waits.pml',
        '  do\n  :: takeReady();\n#ifdef REVOKE\n     comeBack();\n#endif\n',
        '  do\n  ::\n#ifdef REVOKE\n     comeBack();\n#endif\n     takeReady();\n',
      ],
    ],
    by: 'revoke',
    as: DEAD_END,
  },
  {
    name: 'start: a slot used again is absent',
    edits: [
      [
        'stripe_word.pml',
        '#define BEGIN_PRESENT  absent[t] = false; away[t] = false\n',
        '#define BEGIN_PRESENT  away[t] = false\n',
      ],
    ],
    by: 'revoke-death',
    as: ASSERTION,
  },

  // ── WaitGraph ──
  {
    name: 'undo: counts a grant as delivered before it rolls it back',
    edits: [
      [
        'async_waits.pml',
        '     rollBack(own, high(own) + 1);\n',
        '     undelivered[t]--;\n     CHANGED\n     rollBack(own, high(own) + 1);\n',
      ],
      ['async_waits.pml', '     undelivered[t]--;\n     CHANGED\n     done = true\n', '     done = true\n'],
    ],
    by: 'graph-async',
    as: ASSERTION,
  },
  {
    name: 'blockersOf: believes a grant that is not delivered',
    edits: [['wait_graph.pml', 'inGraph[i] && undeliveredOf(i) == 0', 'inGraph[i]']],
    by: 'graph-async',
    as: ASSERTION,
  },
  {
    name: 'blockersOf: a thread that has given up waits',
    edits: [['wait_graph.pml', ':: i == THREADS || !waitsAt(u) -> break', ':: i == THREADS -> break']],
    by: 'graph-timeouts',
    as: ASSERTION,
  },
  {
    name: 'blockersOf: follows a shared waiter to those that share',
    edits: [
      ['wait_graph.pml', 'isShared(word[p]) && !shared[u] && sharesOf', 'isShared(word[p]) && sharesOf'],
    ],
    by: 'graph-shared',
    as: ASSERTION,
  },
  {
    name: 'blockersOf: does not follow a shared waiter to the exclusive ones before it',
    edits: [['wait_graph.pml', ':: !shared[waiterAt(p, i)] && !isAsync(waiterAt(p, i)) ->', ':: false ->']],
    by: 'graph-shared',
    as: DEAD_END,
  },
  {
    name: 'blockersOf: does not follow an exclusive waiter to those that share',
    edits: [['wait_graph.pml', ':: isShared(word[p]) && !shared[u] && sharesOf(i, p) > 0 ->', ':: false ->']],
    by: 'graph-shared',
    as: DEAD_END,
  },
  {
    name: 'refuse: looks once',
    edits: [['wait_graph.pml', 'refused = refused && (found &', 'refused = refused || (found &']],
    by: 'graph-timeouts',
    as: ASSERTION,
  },
  {
    name: 'refuse: looks for cycles of two only',
    edits: [
      [
        'wait_graph.pml',
        '     :: followed & bit(n) -> n = 0\n',
        '     :: (followed & bit(n)) || r == 1 -> n = 0\n',
      ],
    ],
    by: 'graph',
    as: DEAD_END,
  },
  {
    name: 'leave: does not take the mutex of the graph',
    edits: [['wait_graph.pml', '!graphLocked -> inGraph[t] = false;', 'inGraph[t] = false;']],
    by: 'graph-timeouts',
    as: ASSERTION,
  },

  // ── The end of a thread ──
  {
    name: 'leave: a pending acquisition survives its thread',
    edits: [
      [
        'stripe_word.pml',
        ':: pending && !(ending && (holdsSync || holdsAsync)) && mayGiveUp ->',
        ':: pending && !ending ->',
      ],
      [
        'stripe_word.pml',
        ':: ending && !holdsSync && !holdsAsync && !pending -> break',
        ':: ending && !holdsSync && !holdsAsync -> break',
      ],
    ],
    by: 'async-death',
    as: ASSERTION,
  },
  {
    name: 'abandon: frees one of several shares',
    edits: [
      [
        'stripe_word.pml',
        'leave(r, DIE, sharesOf(t, r) > 0, sharesOf(t, r));',
        'leave(r, DIE, sharesOf(t, r) > 0, 1);',
      ],
    ],
    by: 'async-death',
    as: ASSERTION,
  },
  {
    name: 'abandon: overlooks shares',
    edits: [
      [
        'stripe_word.pml',
        '  :: r < STRIPES && (sharesOf(t, r) > 0 || heldBy(word[r], t)) ->\n',
        '  :: r < STRIPES && sharesOf(t, r) > 0 && !heldBy(word[r], t) -> r++\n  :: r < STRIPES && heldBy(word[r], t) ->\n',
      ],
    ],
    by: 'death',
    as: ASSERTION,
  },

  // ── LocalWaits: hand-over within a thread ──
  {
    name: 'withoutHolds: leaves LOCAL in a free word',
    edits: [['table.pml', 'left = seen & ~(HOLDER | LOCAL);', 'left = seen & ~HOLDER;']],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'setLocal: does not look whose the stripe is',
    edits: [
      [
        'local_waits.pml',
        '    ok = heldBy(word[0], t);\n    if\n    :: ok ->\n       CHANGED',
        '    ok = true;\n    if\n    :: ok ->\n       CHANGED',
      ],
    ],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'setLocal: a plain store',
    edits: [
      [
        'local_waits.pml',
        'inline arm() {\n  atomic {\n    ok = heldBy(word[0], t);\n    if\n    :: ok ->\n       CHANGED\n       word[0] = word[0] | LOCAL;',
        'inline arm() {\n  seen = word[0];\n  atomic {\n    ok = heldBy(seen, t);\n    if\n    :: ok ->\n       CHANGED\n       word[0] = seen | LOCAL;\n       seen = 0;',
      ],
    ],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'freeLocal: a plain store',
    edits: [
      ['local_waits.pml', '    ok = (word[0] == (slotOf(t) | LOCAL));\n', '    ok = heldBy(word[0], t);\n'],
    ],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'start: queues where nobody of the thread holds the stripe or waits in the core',
    edits: [
      [
        'local_waits.pml',
        '     :: !isLookedAfter -> arm()\n     :: else -> ok = true\n     fi;\n     CAN_END',
        '     :: true -> ok = true\n     fi;\n     CAN_END',
      ],
    ],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'start: does not arm',
    edits: [
      [
        'local_waits.pml',
        '     :: !isLookedAfter -> arm()\n     :: else -> ok = true\n     fi;\n     CAN_END',
        '     :: !isLookedAfter -> ok = heldBy(word[0], t)\n     :: else -> ok = true\n     fi;\n     CAN_END',
      ],
    ],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'start: passes what waits in the core for several stripes',
    edits: [
      [
        'local_waits.pml',
        'inline startLocal() {\n  if\n  :: elsewhere ->',
        'inline startLocal() {\n  if\n  :: false ->',
      ],
    ],
    by: 'local-order',
    as: ASSERTION,
  },
  {
    name: 'release: hands over where the core must be asked',
    edits: [
      [
        'local_waits.pml',
        '  :: queued == 0 -> seen = 0; free()\n',
        '  :: queued == 0 -> seen = 0; handing = true; ok = true\n',
      ],
      [
        'local_waits.pml',
        '     free();\n     if\n     :: ok -> ok = false\n     :: else -> giveBackLater()\n     fi\n',
        '     skip\n',
      ],
    ],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'release: keeps the stripe in the thread however long others wait',
    edits: [
      ['local_waits.pml', '  :: queued != 0 && (seen & QUEUED) ->', '  :: false ->'],
      ['local_waits.pml', '(!(seen & QUEUED) || mayBeUnfair) ->', 'true ->'],
    ],
    by: 'local-fairness',
    as: CYCLE,
  },
  {
    name: 'release: hands the stripe over as abandoned',
    edits: [
      [
        'local_waits.pml',
        '     :: seen & ABANDONED -> atomic { CHANGED word[0] = word[0] & ~ABANDONED }\n',
        '     :: false -> skip\n',
      ],
    ],
    by: 'local-abandoned',
    as: ASSERTION,
  },
  {
    name: 'release: a plain store clears ABANDONED',
    edits: [
      ['local_waits.pml', 'atomic { CHANGED word[0] = word[0] & ~ABANDONED }', 'word[0] = seen & ~ABANDONED'],
    ],
    by: 'local-reborn',
    as: ASSERTION,
  },
  {
    name: 'goOver: the stripe goes to others, and nobody represents the queue',
    edits: [
      [
        'local_waits.pml',
        '     register(idle);\n     assert(!handing)\n  :: queued != 0 && (!(seen',
        '     skip\n  :: queued != 0 && (!(seen',
      ],
    ],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'giveBack: still believes that it has the stripe',
    edits: [
      ['local_waits.pml', '#define GAVE_BACK armed = armed && r != 0; handing', '#define GAVE_BACK handing'],
    ],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'deliver: does not arm for those behind',
    edits: [
      ['local_waits.pml', '     :: !armed -> arm(); assert(ok); ok = false\n', '     :: false -> skip\n'],
    ],
    by: 'local-give-up',
    as: ASSERTION,
  },
  {
    name: 'deliver: nobody gives back what nobody waits for any more',
    edits: [
      [
        'local_waits.pml',
        '     free();\n     if\n     :: ok -> ok = false\n     :: else -> giveBackLater()\n     fi\n',
        '     skip\n',
      ],
    ],
    by: 'local-give-up',
    as: ASSERTION,
  },
  {
    name: 'deliver: does not tell of ABANDONED',
    edits: [['local_waits.pml', '       queueAbandoned = told[fresh];\n', '']],
    by: 'local-abandoned',
    as: ASSERTION,
  },
  {
    name: 'takeBack: a thread blocks while it hands over',
    edits: [['local_waits.pml', '  :: handing -> takeBack()', '  :: false -> skip']],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'takeBack: drops ABANDONED',
    edits: [['local_waits.pml', '  leave(0, ROLL_BACK, false, 1);\n', '  leave(0, RELEASE, false, 1);\n']],
    by: 'local-abandoned',
    as: ASSERTION,
  },
  {
    name: 'standInGranted: does not arm',
    edits: [
      ['local_waits.pml', '  :: queued != 0 -> arm(); assert(ok); ok = false\n', '  :: false -> skip\n'],
    ],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'standInEnded: nobody takes its place',
    edits: [['local_waits.pml', 'standIn = 0; replaceStandIn()', 'standIn = 0']],
    by: 'local-give-up',
    as: ASSERTION,
  },
  {
    name: 'cancel: nobody takes the place of a stand-in',
    edits: [
      [
        'local_waits.pml',
        '  :: !ending && hasLocals && standIn == own + 1 -> replaceStandIn()',
        '  :: !ending && hasLocals && standIn == own + 1 -> standIn = 0',
      ],
    ],
    by: 'local-give-up',
    as: ASSERTION,
  },
  {
    name: 'register: loses what it is granted at once',
    edits: [
      [
        'local_waits.pml',
        '       handing = true;\n       forgetRequest(fresh)\n',
        '       forgetRequest(fresh)\n',
      ],
    ],
    by: 'local-give-up',
    as: ASSERTION,
  },
  {
    name: 'register: goes on to count what waits in the core',
    edits: [['local_waits.pml', '    queued--;\n    counted[t]--;\n', '    queued--;\n']],
    by: 'local',
    as: ASSERTION,
  },
  {
    name: 'insertByNumber: a stand-in waits behind what came after it',
    edits: [['table.pml', '  :: comesFirst -> insertByNumber(s, w)\n', '  :: false -> skip\n']],
    by: 'local-order',
    as: ASSERTION,
  },
  {
    name: 'expose: believes that it still has what the core may put off',
    edits: [
      [
        'local_waits.pml',
        '  :: hasLocals && armed && low(who) == 0 && p > 0 -> expose(who)',
        '  :: false -> skip',
      ],
    ],
    by: 'local-order',
    as: ASSERTION,
  },

  // ── NameTable: exact keys ──
  {
    name: 'N1: a key that has a stripe gets another',
    edits: [
      [
        'key_names.pml',
        '  :: stripeFor[k] != 0 ->\n     if\n     :: orphan[k]',
        '  :: stripeFor[k] != 0 && pins[k] == 0 ->\n     if\n     :: orphan[k]',
      ],
    ],
    by: 'keys-alone',
    as: ASSERTION,
  },
  {
    name: 'N1: a stripe that is of a key is given to another, too',
    edits: [
      [
        'key_names.pml',
        '     free[shardOf(k)] = free[shardOf(k)] & ~bit(got - 1)\n  :: free',
        '     skip\n  :: free',
      ],
    ],
    by: 'keys',
    as: ASSERTION,
  },
  {
    name: 'N2: the last pin of an abandoned key frees its stripe',
    edits: [
      ['key_names.pml', '       :: seen == 0 -> drop(name)\n', '       :: true -> drop(name)\n'],
      ['key_names.pml', '       :: else -> addOrphan(name)\n', ''],
    ],
    by: 'keys-death',
    as: ASSERTION,
  },
  {
    name: 'N2: the first unpin frees the stripe, whoever else has pinned it',
    edits: [
      [
        'key_names.pml',
        '    :: pins[name] != 0 -> shard[shardOf(name)] = false; last = false\n    :: else -> last = true\n',
        '    :: true -> last = true\n',
      ],
    ],
    by: 'keys',
    as: ASSERTION,
  },
  {
    name: 'N2: an abandoned key that is pinned again stays an orphan',
    edits: [['key_names.pml', '     :: orphan[k] -> unlinkOrphan(k)\n', '     :: false -> skip\n']],
    by: 'keys-death',
    as: ASSERTION,
  },
  {
    name: 'N2: an orphan is chosen before its shard is locked',
    edits: [
      [
        'key_names.pml',
        '       :: else -> n = shardOf(oldest - 1)\n',
        '       :: else -> n = shardOf(oldest - 1); victim = oldest\n',
      ],
      ['key_names.pml', '          victim = oldest;\n', ''],
      [
        'key_names.pml',
        '       :: oldest == 0 || shardOf(oldest - 1) != n -> shard[n] = false\n',
        '       :: false -> skip\n',
      ],
    ],
    by: 'keys-death',
    as: ASSERTION,
  },
  {
    name: 'N2: a thread that ends unpins what it holds before it abandons it',
    edits: [['key_names.pml', '  abandon();\n  unpinAll();\n', '  unpinAll();\n  abandon();\n']],
    by: 'keys-death',
    as: ASSERTION,
  },
  {
    name: 'N3: a forgotten key leaves its word abandoned to the next key',
    edits: [
      [
        'key_names.pml',
        'atomic { word[stripeFor[victim - 1] - 1] = 0; dirty[victim - 1] = false };',
        'dirty[victim - 1] = false;',
      ],
    ],
    by: 'keys-death',
    as: ASSERTION,
  },
  {
    name: 'N3: a stray is in the cache, too',
    edits: [
      [
        'key_names.pml',
        '     :: got != NONE && !again && !strayed -> cached[k] = got\n',
        '     :: got != NONE && !strayed -> cached[k] = got\n',
      ],
    ],
    by: 'keys',
    as: ASSERTION,
  },
  {
    name: 'N3: a set is remembered longer than its keys are pinned',
    edits: [['key_names.pml', '  forgetSets();\n', '']],
    by: 'keys-nested',
    as: ASSERTION,
  },
  {
    name: 'N3: a thread that ends keeps its waiters linked while it unpins',
    edits: [
      [
        'key_names.pml',
        '  :: waits[t] || granted[t] -> giveUp()\n  :: else -> skip\n  fi;\n  abandon();',
        '  :: true -> skip\n  fi;\n  abandon();',
      ],
    ],
    by: 'keys-death',
    as: ASSERTION,
  },
  {
    name: 'N2: the stripe of a key that others have pinned is reused',
    edits: [
      [
        'key_names.pml',
        ' (idle != 0 && pins[byStripe[idle - 1] - 1] == 1 && word[idle - 1] == 0)',
        ' (idle != 0 && word[idle - 1] == 0)',
      ],
    ],
    by: 'keys-reuse',
    as: ASSERTION,
  },
  {
    name: 'N2: the stripe of an abandoned key is reused',
    edits: [['key_names.pml', ' && word[idle - 1] == 0)', ')']],
    by: 'keys-reuse',
    as: ASSERTION,
  },
  {
    name: 'N3: an unpinned stripe is reused',
    edits: [['key_names.pml', '           forgetOnce(byStripe[at] - 1, at);\n', '']],
    by: 'keys-reuse',
    as: ASSERTION,
  },
  {
    name: 'N3: a stripe of a remembered set is reused',
    edits: [
      [
        'key_names.pml',
        '  :: once[shardOf(k)] == got -> once[shardOf(k)] = 0\n  :: else -> skip\n',
        '  :: true -> skip\n',
      ],
    ],
    by: 'keys-reuse-alone',
    as: ASSERTION,
  },
  {
    name: 'N3: a reused stripe is in the cache, too',
    edits: [
      [
        'key_names.pml',
        '     :: got != NONE && reused -> skip\n     :: got != NONE && !again && !strayed',
        '     :: got != NONE && !again && (reused || !strayed)',
      ],
    ],
    by: 'keys-reuse-alone',
    as: ASSERTION,
  },
  {
    name: 'N4: a stripe is reused between its look-up and when it is taken',
    edits: [['key_names.pml', ':: MAY_REUSE && busy == 0 && !blocks', ':: MAY_REUSE && !blocks']],
    by: 'keys-reuse-alone',
    as: ASSERTION,
  },
  {
    name: 'N5: the stripe of a key of another shard is reused',
    edits: [['key_names.pml', '  idle = once[shardOf(k)];', '  idle = once[0];']],
    by: 'keys-reuse-alone',
    as: ASSERTION,
  },
  {
    name: 'N4: a key that its thread holds is unpinned',
    edits: [
      [
        'key_names.pml',
        '#define uses(s) ((word[s] & HOLDER) == slot || async == s + 1)',
        '#define uses(s) (async == s + 1)',
      ],
    ],
    by: 'keys',
    as: ASSERTION,
  },
  {
    name: 'N4: a key that an async acquisition waits for is unpinned',
    edits: [
      ['key_names.pml', '((word[s] & HOLDER) == slot || async == s + 1)', '((word[s] & HOLDER) == slot)'],
    ],
    by: 'keys',
    as: ASSERTION,
  },
  {
    name: 'N4: an interrupt unpins the key that its thread blocks for',
    edits: [
      [
        'key_names.pml',
        '  :: at == STRIPES || blocks -> break\n  :: at < STRIPES && !blocks ->',
        '  :: at == STRIPES -> break\n  :: at < STRIPES ->',
      ],
    ],
    by: 'keys',
    as: ASSERTION,
  },
  {
    name: 'N4: unpins what was looked up and is not taken yet',
    edits: [
      [
        'key_names.pml',
        'inline trim() {\n  if\n  :: busy == 0 -> evict(); unpinStrays()',
        'inline trim() {\n  if\n  :: true -> evict(); unpinStrays()',
      ],
    ],
    by: 'keys-nested',
    as: ASSERTION,
  },
  {
    name: 'N4: unpins what was looked up and is not taken yet, for want of a stripe',
    edits: [['key_names.pml', '     :: got == NONE && busy == 0 ->', '     :: got == NONE ->']],
    by: 'keys-nested',
    as: ASSERTION,
  },
  {
    name: 'N5: the stripe of a key that is dropped is lost',
    edits: [['key_names.pml', '    free[shardOf(k)] = free[shardOf(k)] | bit(stripeFor[k] - 1);\n', '']],
    by: 'keys',
    as: ASSERTION,
  },
  {
    name: 'N5: a stripe that is moved stays free in the other shard, too',
    edits: [['key_names.pml', '          free[n] = free[n] & ~bit(got - 1);\n', '']],
    by: 'keys',
    as: ASSERTION,
  },
  {
    name: 'pin: a thread pins a key each time that it looks it up',
    edits: [
      [
        'key_names.pml',
        '  :: got != NONE && !reused && hasPinned(got - 1) -> unpinName(got - 1); again = true\n',
        '  :: got != NONE && hasPinned(got - 1) -> again = true\n',
      ],
    ],
    by: 'keys-alone',
    as: ASSERTION,
  },
  {
    name: 'pin: a key is refused while another shard has a free stripe',
    edits: [['key_names.pml', '     moveFree(k);\n', '']],
    by: 'keys-alone',
    as: ASSERTION,
  },

  // ── permits.pml ──
  {
    name: 'permits: the fast path takes one more than there are',
    edits: [['permits.pml', 'word < (SHARED | LIMIT));', 'word <= (SHARED | LIMIT));']],
    by: 'permits',
    as: ASSERTION,
  },
  {
    name: 'permits: the fast path gives back without asking who waits',
    edits: [
      [
        'permits.pml',
        'ok = (word > SHARED && word <= (SHARED | LIMIT));',
        'ok = (count(word) > 0 && !(word & ABANDONED));',
      ],
    ],
    by: 'permits',
    as: ASSERTION,
  },
  {
    name: 'permits: the fast path takes one and tells nobody of a death',
    edits: [
      [
        'permits.pml',
        'ok = word == 0 || (word > SHARED && word',
        'ok = isFree(word) || ((word & ~ABANDONED) > SHARED && (word & ~ABANDONED)',
      ],
    ],
    by: 'permits-death',
    as: ASSERTION,
  },
  {
    name: 'permits: an attempt does not look at the limit',
    edits: [
      [
        'permits.pml',
        'ok = (isFree(word) || !(word & QUEUED)) && admits(word);',
        'ok = (isFree(word) || !(word & QUEUED));',
      ],
    ],
    by: 'permits',
    as: ASSERTION,
  },
  {
    name: 'permits: a waiter is linked without QUEUED',
    edits: [['permits.pml', '(designated -> seen : seen | QUEUED));', 'seen);']],
    by: 'permits',
    as: ASSERTION,
  },
  {
    name: 'permits: a waiter takes what it has seen, whatever the word is by then',
    edits: [
      [
        'permits.pml',
        ':: next != seen && word != seen -> seen = word\n       :: next == seen || word == seen ->',
        ':: false -> skip\n       :: else ->',
      ],
    ],
    by: 'permits',
    as: ASSERTION,
  },
  {
    name: 'permits: a designated waiter sleeps although a permit is left',
    edits: [['permits.pml', ':: !admits(seen) && word == seen ->', ':: !isFree(seen) && word == seen ->']],
    by: 'permits',
    as: ASSERTION,
  },
  {
    name: 'permits: a designated waiter sleeps, and QUEUED is set whatever the word is',
    edits: [
      [
        'permits.pml',
        ':: !admits(seen) && word == seen ->\n             word = seen | QUEUED;',
        ':: !admits(seen) ->\n             word = word | QUEUED;',
      ],
    ],
    by: 'permits',
    as: ASSERTION,
  },
  {
    name: 'permits: a designated waiter sleeps again, and stays designated',
    edits: [
      [
        'permits.pml',
        '             word = seen | QUEUED;\n             designated = 0;',
        '             word = seen | QUEUED;',
      ],
    ],
    by: 'permits',
    as: DEAD_END,
  },
  {
    name: 'permits: what a designated waiter does not need waits for it',
    edits: [['permits.pml', ':: designated != 0 -> planBeside()', ':: designated != 0 -> skip']],
    by: 'permits-of-4',
    as: ASSERTION,
  },
  {
    name: 'permits: that of a designated waiter goes to another one',
    edits: [
      [
        'permits.pml',
        'queue[n] != 0 && count(next) + 1 < LIMIT ->\n     if',
        'queue[n] != 0 && count(next) < LIMIT ->\n     if',
      ],
    ],
    by: 'permits-of-4',
    as: ASSERTION,
  },
  {
    name: 'permits: a release lets in all who wait',
    edits: [
      [
        'permits.pml',
        'queue[n] != 0 && admits(next) ->\n     grantAt();',
        'queue[n] != 0 ->\n     grantAt();',
      ],
    ],
    by: 'permits-together',
    as: ASSERTION,
  },
  {
    name: 'permits: of several that come free one finds its waiter',
    edits: [['permits.pml', ':: count(next) + 1 < LIMIT -> planJoint()', ':: false -> skip']],
    by: 'permits-together',
    as: ASSERTION,
  },
  {
    name: 'permits: the next is let in where there is no permit',
    edits: [
      [
        'permits.pml',
        'designated == 0 && queue[0] != 0 && !admits(next) -> next = next | QUEUED',
        'designated == 0 && queue[0] != 0 && !admits(next) -> planAlone()',
      ],
    ],
    by: 'permits',
    as: ASSERTION,
  },
  {
    name: 'permits: QUEUED is forgotten where several are let in',
    edits: [['permits.pml', 'next = next | (queue[n] != 0 -> QUEUED : 0)', 'skip']],
    by: 'permits-together',
    as: ASSERTION,
  },
  {
    name: 'permits: QUEUED is forgotten where one is let in',
    edits: [['permits.pml', 'next = next | (queue[1] != 0 -> QUEUED : 0)', 'skip']],
    by: 'permits-of-4',
    as: ASSERTION,
  },
  {
    name: 'permits: who gives up stays designated',
    edits: [['permits.pml', 'designated = (designated == t + 1 -> 0 : designated);', 'skip;']],
    by: 'permits',
    as: ASSERTION,
  },
  {
    name: 'permits: who gives up lets nobody pass',
    edits: [
      [
        'permits.pml',
        ':: ok -> leaveLocked(STAY, 0)\n  :: else -> skip\n  fi\n}\n\ninline unlinkServed',
        ':: ok -> shard = false; seen = 0\n  :: else -> skip\n  fi\n}\n\ninline unlinkServed',
      ],
    ],
    by: 'permits-of-4',
    as: ASSERTION,
  },
  {
    name: 'permits: a dead thread gives back one of its two',
    edits: [['permits.pml', 'leave(DIE, shares[t]);', 'leave(DIE, 1);']],
    by: 'permits-told',
    as: ASSERTION,
  },
  {
    name: 'permits: a dead thread gives back those of an acquisition twice',
    edits: [
      ['permits.pml', 'leave(ROLL_BACK, 1); ok = false', 'leave(ROLL_BACK, 1); shares[t]++; ok = false'],
    ],
    by: 'permits-told',
    as: ASSERTION,
  },
  {
    name: 'permits: a death is not told',
    edits: [['permits.pml', 'left = (how == DIE -> left | ABANDONED : left);', 'skip;']],
    by: 'permits-told',
    as: ASSERTION,
  },
  {
    name: 'permits: a death is told for ever',
    edits: [
      ['permits.pml', 'left = (how == RELEASE && (left & TOLD) -> left & ~ABANDONED : left);', 'skip;'],
    ],
    by: 'permits-told',
    as: ASSERTION,
  },
  {
    name: 'permits: a release by one who was not told ends the telling',
    edits: [['permits.pml', 'how == RELEASE && (left & TOLD) ->', 'how == RELEASE ->']],
    by: 'permits-told',
    as: ASSERTION,
  },
  {
    name: 'permits: a roll back ends the telling',
    edits: [
      [
        'permits.pml',
        'how == RELEASE && (left & TOLD) ->',
        '(how == RELEASE || how == ROLL_BACK) && (left & TOLD) ->',
      ],
    ],
    by: 'permits-told',
    as: ASSERTION,
  },
  {
    name: 'permits: who was told and is rolled back counts as told',
    edits: [
      [
        'permits.pml',
        '     left = left & ~TOLD\n',
        '     left = (how == ROLL_BACK -> left : left & ~TOLD)\n',
      ],
    ],
    by: 'permits-told',
    as: ASSERTION,
  },
  {
    name: 'permits: who was told of an earlier death counts as told of this one',
    edits: [
      ['permits.pml', '     left = left & ~TOLD\n', '     left = (how == DIE -> left : left & ~TOLD)\n'],
    ],
    by: 'permits-told',
    as: ASSERTION,
  },
  {
    name: 'permits: nobody counts as told',
    edits: [['permits.pml', '(((x) & ABANDONED) -> TOLD : 0)', '0']],
    by: 'permits-told',
    as: ASSERTION,
  },
];
