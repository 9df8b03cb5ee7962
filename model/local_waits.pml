/* Tasks of one thread that pass stripe 0 on to each other without the core: lib/engine/native/local-waits.ts,
 * local-queue.ts, and the stand-ins of thread.ts. Invariants I8 – I11 are stated in local-waits.ts.
 *
 * Of a thread's JavaScript, other threads see only the words. So a step here is one access of a word, or the start of
 * one call of the core; a thread may be ended between any two. A guard of such a task is one of the sync waiter `t`:
 * it differs from others only in how its thread came by it.
 */

#ifdef LOCALS

#define hasLocals    (t < LOCALS)
/* See LocalQueue. */
/* mutant: I9-serves-without-a-hold */
#define willBeServed (armed || handing || standIn != 0)
#define handsOver     handing
#define waitsLocally  (queued != 0)
/* Waiters in the core that are not stand-ins; all of them ask for stripe 0. See `elsewhere` in LocalWaits. */
#define elsewhere     (pending & ~(standIn != 0 -> bit(standIn - 1) : 0))
#define mayStartLocal (queued < QUEUE && (elsewhere -> idle && leavesRoom : idle || willBeServed || heldBy(word[0], t)))
/* Another waiter in the core leaves room for a stand-in. Held waiters have stripe 0, so they give it back before that. */
#define leavesRoom    (queued == 0 || holdsAsync || (idle & ~lowest(idle)))

/* While no call is under way. I9 is not defined by willBeServed, so a fault of willBeServed breaks it. If waiters may give
 * up, only I9 finds a state in which no step serves them; otherwise, that state is also a dead end. */
#define i9  (queued == 0 || armed || handing || standIn != 0)
#define isArmed   (heldBy(word[0], t) && (word[0] & LOCAL) && ((holdsSync && low(t) == 0) || holdsAsync || handing))
#define isSound   (i9 && (!armed || isArmed) && (!handing || heldBy(word[0], t)) && counted[t] == queued && \
                   (standIn == 0 || (!handing && (pending & bit(standIn - 1)))))

#ifdef MORTAL
#define CAN_END(leftovers) if :: mortal -> atomic { leftovers; forgetCall() } :: skip fi;
#else
#define CAN_END(leftovers)
#endif

/* Its thread ends in the middle of a call. */
inline forgetCall() {
  ok = false;
  done = false;
  evenGranted = false;
  patience = FOREVER;
  from = 0;
  p = 0;
  r = 0;
  seen = 0;
  comesFirst = false;
  fresh = 0;
  ending = true;
  goto turn
}

/* ── the word ── */

/* #arm: sets `ok` to whether. A loop of load and exchange, which takes effect at the last of them. */
inline arm() {
  atomic {
    ok = heldBy(word[0], t);
    if
    :: ok ->
       CHANGED
       word[0] = word[0] | LOCAL;
       armed = true
    :: else -> skip
    fi
  }
}

/* #free: sets `ok` to whether. */
inline free() {
  atomic {
    /* mutant: I8-plain-store */
    ok = (word[0] == (slotOf(t) | LOCAL));
    if
    :: ok ->
       CHANGED
       word[0] = 0;
       armed = false
    :: else -> skip
    fi
  }
}

/* ── LocalQueue, and the counts of LocalWaits ── */

#ifdef ORDER
/* Exclusive acquisitions by arrival, those in the queue and those in the core. */
#define ARRIVED       latest++; ranks[own - firstOwn] = latest;
#define RANK_AS_FIRST ranks[fresh - firstOwn] = queuedRanks[0];
/* A request that is granted with rank `r` came before all others that wait. */
#define IN_ORDER(r)   assert(isBefore(r, queuedRanks[0]) && isBefore(r, ranks[0]) && isBefore(r, ranks[1]));
#define isBefore(r, other) (other == 0 || r <= other)
/* It waits for another stripe, and took stripe 0 as it came by. */
#define UNRANK_TAKEN  d_step { if :: position(own) != 0 -> ranks[own - firstOwn] = 0 :: else fi };
#define UNRANK(who)   d_step { if :: isAsync(who) -> ranks[who - firstOwn] = 0 :: else fi };
#else
#define ARRIVED
#define RANK_AS_FIRST
#define IN_ORDER(r)
#define UNRANK(who)
#define UNRANK_TAKEN
#endif

inline enqueue() {
  atomic {
    queued++;
    counted[t]++;
#ifdef ORDER
    latest++;
    queuedRanks[queued - 1] = latest;
#endif
    skip
  }
}

/* Takes the entry at `at` out of the queue. */
inline unlink() {
  d_step {
    queued--;
    counted[t]--;
#ifdef ORDER
    do
    :: at < queued -> queuedRanks[at] = queuedRanks[at + 1]; at++
    :: else -> break
    od;
    queuedRanks[queued] = 0;
#endif
    at = 0
  }
}

/* ── LocalWaits ── */

/* start(), after the fast path found the stripe taken. */
inline startLocal() {
  if
  :: elsewhere ->
     assert(idle);
     atomic { pick(lowest(idle)); ARRIVED };
     startSlow()
  :: else ->
     if
     :: !willBeServed -> arm()
     :: else -> ok = true
     fi;
     CAN_END(skip)
     if
     :: ok -> ok = false; enqueue()
     :: else -> startAsStandIn()
     fi
  fi
}

inline startAsStandIn() {
  assert(idle);
  atomic { pick(lowest(idle)); ARRIVED };
  startSlow();
  standIn = (pending & bit(own) -> own + 1 : 0)
}

/* release(), where it differs from the core's. #mayKeep: the time from fairIn() may pass early, because another waiter may
 * be the head by then. */
#define RELEASE_LOCALLY(who)                                                                                            \
  if                                                                                                                    \
  :: hasLocals && r == 0 && !shared[who] && armed -> releaseLocal(who)                                                  \
  :: else -> skip                                                                                                       \
  fi;
inline releaseLocal(who) {
  CAN_END(skip)
  atomic { seen = word[0]; assert(heldBy(seen, t) && !handing && standIn == 0) };
  if
  :: queued == 0 -> seen = 0; free()
  :: queued != 0 && (seen & QUEUED) ->
     seen = 0;
     forgetRequest(who);
     register(idle);
     assert(!handing)
  /* mutant: I11-keeps-the-stripe */
  :: queued != 0 && (!(seen & QUEUED) || mayBeUnfair) ->
     if
     /* mutant: death-plain-store */
     :: seen & ABANDONED -> atomic { CHANGED word[0] = word[0] & ~ABANDONED }
     :: else -> skip
     fi;
     CAN_END(skip)
     atomic {
       seen = 0;
       handing = true;
       ok = true
     }
  fi;
  if
  :: ok -> atomic { turnIfReleased(who) }
  :: else -> skip
  fi
}
/* Its waiter may be the stand-in by now. */
#define FORGET_RELEASED(who)                                                                                            \
  if                                                                                                                    \
  :: pending & bit(who) -> skip                                                                                         \
  :: else -> forgetRequest(who)                                                                                         \
  fi;
/* And what #giveBack does after the core. */
#define GAVE_BACK armed = armed && r != 0; handing = handing && r != 0; queueAbandoned = queueAbandoned && r != 0;

/* #giveBack for a waiter that is put off. */
inline giveBackLater() {
  leave(0, ROLL_BACK, false, 1);
  atomic {
    settleSoon();
    armed = false;
    handing = false;
    queueAbandoned = false
  }
}

/* `deliver` in `lib/engine/native/local-waits.ts` */
inline deliverLocal() {
  handing = false;
  if
  :: queued == 0 ->
     free();
     if
     :: ok -> ok = false
     :: else -> giveBackLater()
     fi
  :: else ->
     if
     /* mutant: I9-delivers-unarmed */
     :: !armed -> arm(); assert(ok); ok = false
     :: else -> skip
     fi;
     CAN_END(skip)
     atomic {
       assert(heldBy(word[0], t));
       told[t] = queueAbandoned;
       expected[t] = told[t];
       queueAbandoned = false;
       IN_ORDER(queuedRanks[0])
       unlink();
       hold(t);
       enter(t)
     }
  fi
}

/* `takeBack` in `lib/engine/native/local-waits.ts`, before the thread blocks. */
#define TAKE_BACK                                                                                                       \
  if                                                                                                                    \
  :: handing -> takeBack()                                                                                              \
  :: else -> skip                                                                                                       \
  fi;
inline takeBack() {
  from = p;
  p = 0;
  if
  :: queued != 0 -> register(idle); assert(standIn != 0)
  :: else -> free()
  fi;
  if
  :: ok -> atomic { ok = false; handing = false }
  :: else -> giveBackLater()
  fi;
  p = from;
  from = 0
}

/* standInGranted: the core has delivered the grant to the stand-in `own`. */
#define STAND_IN_GRANTED                                                                                                \
  if                                                                                                                    \
  :: hasLocals && standIn == own + 1 -> standInGranted()                                                                \
  :: else -> skip                                                                                                       \
  fi;
inline standInGranted() {
  CAN_END(pending = pending & ~bit(own); forgetRequest(own))
  standIn = 0;
  if
  /* mutant: I9-no-stand-in */
  :: queued != 0 -> arm(); assert(ok); ok = false
  :: else -> skip
  fi;
  CAN_END(pending = pending & ~bit(own); forgetRequest(own))
}

/* replaceStandIn */
inline replaceStandIn() {
  if
  /* mutant: I9-not-replaced */
  :: queued == 0 || armed || handing -> standIn = 0
  :: else -> register(idle)
  fi
}

/* expose(), before an acquisition by `who` that has taken stripe 0 continues in the core. */
#define EXPOSE(who)                                                                                                     \
  if                                                                                                                    \
  :: hasLocals && armed && low(who) == 0 && p > 0 -> expose(who)                                                        \
  :: else -> skip                                                                                                       \
  fi;
inline expose(who) {
  from = p;
  p = 0;
  if
  :: queued != 0 && standIn == 0 -> register(idle & ~bit(who)); assert(!handing)
  :: else -> skip
  fi;
  armed = false;
  p = from;
  from = 0
}

/* #register: the first waiter becomes the stand-in. If the core grants it the stripe, that is to be delivered. */
inline register(set) {
  atomic {
    fresh = lowest(set);
    assert(fresh);
    firstOf(fresh);
    fresh = k;
    k = 0;
    comesFirst = true
  };
  proceedOwn(fresh);
  atomic {
    comesFirst = false;
    if
    :: ok ->
       ok = false;
       standIn = 0;
       /* mutant: death-not-passed-on */
       queueAbandoned = told[fresh];
       handing = true;
       forgetRequest(fresh)
    :: else ->
       RANK_AS_FIRST
       at = 0;
       unlink();
       pending = pending | bit(fresh);
       standIn = fresh + 1
    fi;
    fresh = 0
  };
  CAN_END(skip)
}

#ifdef STARVING
/* Only those that came before the one that starves. */
#define mayGoFirst  (Q(0, 0) != STARVING + 1 || early > 0)
#define NOTE_FIRST  early = early - (Q(0, 0) == STARVING + 1);
#else
#define mayGoFirst  true
#define NOTE_FIRST
#endif

/* StripeQueue::insertByNumber, at any place */
inline insertByNumber(s, w) {
  if
  :: mayGoFirst -> d_step { NOTE_FIRST pushFront(s, w) }
  :: true ->
     d_step {
       i = 0;
       do
       :: Q(s, i) != 0 && ownerOf(waiterAt(s, i)) != t -> i++
       :: else -> break
       od;
       n = WAITERS - 1;
       do
       :: n > i -> Q(s, n) = Q(s, n - 1); n--
       :: else -> break
       od;
       Q(s, i) = w + 1;
       if
       :: i == 0 && Q(s, 1) == 0 -> beginsToWait
       :: else -> skip
       fi;
       n = 0;
       i = 0
     }
  fi
}

/* With the end of the thread its memory ends. */
inline forgetLocals() {
  d_step {
    queued = 0;
    standIn = 0;
    armed = false;
    handing = false;
    queueAbandoned = false;
    if
    :: hasLocals -> counted[t] = 0
    :: else -> skip
    fi
#ifdef ORDER
    ;
    latest = 0;
    ranks[0] = 0;
    ranks[1] = 0;
    queuedRanks[0] = 0;
    queuedRanks[1] = 0
#endif
  }
}

/* cancel() of a stand-in; there must be room for another one. */
#define mayCancel (ending || !hasLocals || standIn != own + 1 || queued == 0 || idle)
#define REPLACE_BEFORE                                                                                                  \
  ;                                                                                                                     \
  if                                                                                                                    \
  :: !ending && hasLocals && standIn == own + 1 -> replaceStandIn()                                                     \
  :: else -> skip                                                                                                       \
  fi
/* standInEnded */
#define REPLACE_AFTER                                                                                                   \
  if                                                                                                                    \
  :: !ending && hasLocals && standIn == own + 1 && !(pending & bit(own)) -> standIn = 0; replaceStandIn()               \
  :: else -> skip                                                                                                       \
  fi

/* An acquisition that has taken stripe 0 by the fast path, and not all others, may run code of the program; that may start
 * others. */
#if STRIPES > 1
#define MEANWHILE(who)                                                                                                  \
  if                                                                                                                    \
  :: hasLocals && !ending && low(who) == 0 && p > 0 && queued < QUEUE && mayBegin && !elsewhere ->                      \
     COUNT_ROUND                                                                                                        \
     if                                                                                                                 \
     :: !willBeServed -> arm(); assert(ok); ok = false                                                                 \
     :: else -> skip                                                                                                    \
     fi;                                                                                                                \
     enqueue()                                                                                                          \
  :: true                                                                                                               \
  fi;
#else
#define MEANWHILE(who)
#endif

#ifdef ROUNDS
#define COUNT_ROUND rounds++;
#else
#define COUNT_ROUND
#endif

#ifdef STARVING
/* An event loop comes in between in the end: IN_A_ROW. */
#define mayDeliver (!isCalled)
#else
#define mayDeliver true
#endif


#else

#define FORGET_RELEASED(who) forgetRequest(who);
#define MEANWHILE(who)
#define mayCancel true
#define REPLACE_BEFORE
#define REPLACE_AFTER skip
#define RELEASE_LOCALLY(who)
#define TAKE_BACK
#define GAVE_BACK
#define STAND_IN_GRANTED
#define EXPOSE(who)
#define ARRIVED
#define UNRANK(who)
#define UNRANK_TAKEN
#define IN_ORDER(r)
#define leavesRoom   true
#define handsOver    false
#define waitsLocally false

#endif
