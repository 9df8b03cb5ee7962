/* Table (table.cc, table_grants.cc). `t` is the running thread; its variables are declared in stripe_word.pml. */

#define STAY      0
#define RELEASE   1
#define ROLL_BACK 2
#define DIE       3

/* With async waiters, the decision about who may enter is a separate step, before the word changes: a thread may block or
 * continue in between. With FINE_PASS_OVER, each load and store of Participant::passOver is a step. Without async
 * waiters, the decision depends only on locked state and on the word. */
#if !ASYNC
#define DECIDE_AND_EXCHANGE atomic
#define DECIDE              atomic
#else
#define DECIDE_AND_EXCHANGE
#ifdef FINE_PASS_OVER
#define DECIDE
#else
#define DECIDE atomic
#endif
#endif

/* StripeQueue::fairAt. The clock is chosen freely, unless a configuration is about it. Then `waited` records separately
 * whether any time has passed since the queue formed, or since its first waiter was served: a stripe is never handed
 * over sooner. */
#ifdef CLOCK
bool fairnessDue;
#define mayBeFair        fairnessDue
#define mayBeUnfair      !fairnessDue
#define restartClock     fairnessDue = false
#define noteTurn(isHead) inTurn = isHead
#define restartInTurn    fairnessDue = fairnessDue && !inTurn
#else
#define mayBeFair        true
#define mayBeUnfair      true
#define restartClock     skip
#define noteTurn(isHead) skip
#define restartInTurn    skip
#endif
#if defined(CLOCK) && !defined(STARVING)
bool waited;
#define beginsToWait     waited = false
#define mayHandOver      waited
#define passTime         fairnessDue = true; waited = true
#else
#define beginsToWait     skip
#define mayHandOver      true
#define passTime         fairnessDue = true
#endif

/* ── StripeQueue ── */

inline pushBack(s, w) {
  d_step {
    i = 0;
    do
    :: Q(s, i) != 0 -> i++
    :: else -> break
    od;
    Q(s, i) = w + 1;
    if
    :: i == 0 -> beginsToWait
    :: else -> skip
    fi;
    i = 0
  }
}

/* insertByNumber(), if `w` waited elsewhere before; but always before all waiters of its thread. Its place among others
 * depends on the clock. */
inline link(s, w) {
#ifdef LOCALS
#ifdef STARVING
  early = (w == STARVING -> QUEUE : early);
#endif
  if
  /* mutant: I10-stand-in-last */
  :: comesFirst -> insertByNumber(s, w)
  :: else -> pushBack(s, w)
  fi
#else
  pushBack(s, w)
#endif
}

inline pushFront(s, w) {
  d_step {
    i = WAITERS - 1;
    do
    :: i > 0 -> Q(s, i) = Q(s, i - 1); i--
    :: else -> break
    od;
    Q(s, 0) = w + 1;
    if
    :: Q(s, 1) == 0 -> beginsToWait
    :: else -> skip
    fi
  }
}

inline removeFrom(s, w) {
  d_step {
    i = 0;
    do
    :: Q(s, i) != 0 && Q(s, i) != w + 1 -> i++
    :: else -> break
    od;
    assert(Q(s, i) == w + 1);
    do
    :: Q(s, i) != 0 -> Q(s, i) = Q(s, i + 1); i++
    :: else -> break
    od;
    i = 0
  }
}

/* The same for one that has its stripe now. */
inline removeServed(s, w) {
  if
  :: Q(s, 0) == w + 1 -> beginsToWait
  :: else -> skip
  fi;
  removeFrom(s, w)
}

/* ── A shard's mutex; both are parts of a step. That a mutex lets everybody in is not proved here. ── */

#if ASYNC && defined(STARVING)
#define AWAIT_SHARD atShard = (atShard || t == STARVING);
#define LOCKED      atShard = (atShard && t != STARVING)
#else
#define AWAIT_SHARD
#define LOCKED      skip
#endif

inline lockShard(s) {
  !shard[shardOf(s)] -> shard[shardOf(s)] = true;
  CHANGED
  LOCKED
}

inline unlockShard(s) {
  shard[shardOf(s)] = false
}

/* ── Taking ── */

/* Whether a waiter of this queue is not to be granted anything now: its thread blocks; or did not come for what it was
 * handed, unless the waiter has some of its stripes. */
#ifdef REVOKE
/* mutant: I7-hands-on-to-absent */
#define isOut(w) (isAsync(w) && (blocked[ownerOf(w)] || (absent[ownerOf(w)] && position(w) == low(w))))
#else
#define isOut(w) (isAsync(w) && blocked[ownerOf(w)])
#endif

/* Moves `at` to the first eligible waiter from there on. */
inline passOverIneligible(s) {
#if ASYNC
  do
  :: Q(s, at) != 0 && isOut(waiterAt(s, at)) ->
     /* mutant: I3-passed-over-for-good */
     passedOver[ownerOf(waiterAt(s, at))] = true;
     if
     :: isOut(waiterAt(s, at)) -> at++
     :: else -> break
     fi
  :: else -> break
  od
#else
  skip
#endif
}

/* Records what a waiter reads in the word that it takes, before the word changes. With Membership::countTaken. */
inline noteTaken(s, w) {
  told[w] = told[w] || (word[s] & ABANDONED);
  expected[w] = expected[w] || dirty[s];
  /* mutant: I1-share-counted-early */
  sharesOf(ownerOf(w), s) = sharesOf(ownerOf(w), s) + (shared[w] && !isAsync(w))
}

#define taking(x, w) (isFree(x) -> (x) | (shared[w] -> SHARED + 1 : slotOf(ownerOf(w))) : (x) + 1)

/* Its loop of load and exchange reads only the word. So it takes effect at its last exchange or, if it gives up, at its
 * last load: one step. Sets `ok` to whether it took. */
inline tryTake(s, w) {
  d_step {
    ok = isFree(word[s]) || (shared[w] && isShared(word[s]) && !(word[s] & QUEUED));
    if
    :: ok ->
       noteTaken(s, w);
       CHANGED
       word[s] = taking(word[s], w)
    :: else -> skip
    fi
  }
}

/* Sets `ok` to whether `w` may take the word that was `seen`. */
inline mayTake(s, w) {
  ok = isFree(seen);
  if
  :: !isFree(seen) && shared[w] && isShared(seen) ->
     passOverIneligible(s);
     do
     :: Q(s, at) != 0 && shared[waiterAt(s, at)] -> at++; passOverIneligible(s)
     :: else -> break
     od;
     /* mutant: I3-joins-past-writer */
     ok = (Q(s, at) == 0);
     at = 0
  :: else -> skip
  fi
}

/* With the shard locked and the word in `seen`. Sets `ok` to whether it was taken. */
inline takeOrLink(s, w) {
  do
  :: DECIDE_AND_EXCHANGE {
       DECIDE { mayTake(s, w) };
       atomic {
         /* mutant: I3-links-unseen */
         next = (ok -> taking(seen, w) : (designated[s] -> seen : seen | QUEUED));
         if
         :: next != seen && word[s] != seen -> seen = word[s]; lose()
         :: next == seen || word[s] == seen ->
            if
            :: ok -> noteTaken(s, w); word[s] = next
            :: else ->
               word[s] = (next == seen -> word[s] : next);
               if
               /* mutant: fairness-not-started */
               :: Q(s, 0) == 0 -> restartClock
               :: else -> skip
               fi;
               link(s, w);
               state[w] = WAITING
            fi;
            win();
            next = 0;
            seen = 0;
            unlockOwn(s, w);
            break
         fi
       }
     }
  od
}

/* Where a thread proceeds for itself: with its last stripe, or where it is linked, it gives the shard back. */
inline unlockOwn(s, w) {
  if
  :: last != 0 && (!ok || s == high(w)) -> unlockLast()
  :: else -> skip
  fi
}

inline unlockLast() {
  shard[last - 1] = false;
  last = 0
}

/* ── Leaving ── */

/* afterLeaving: from `seen` to `left`. Only a holder leaves here. */
inline afterLeaving(how, isSharedHold, holds) {
  d_step {
    if
    :: how == STAY -> left = seen
    :: how != STAY && isSharedHold ->
       assert(isShared(seen) && holderOf(seen) >= holds);
       left = (holderOf(seen) == holds -> seen & ~(SHARED | HOLDER) : seen - holds)
    :: how != STAY && !isSharedHold ->
       assert(heldBy(seen, actor));
       left = seen & ~(HOLDER | LOCAL);                                           /* keeps I8 */
       /* mutant: death-rolled-back */
       left = (how == RELEASE -> left & ~ABANDONED : left)
    fi;
    /* mutant: death-untold */
    left = (how == DIE && !isSharedHold -> left | ABANDONED : left)
  }
}

/* Sets `next`, and `toDesignate` (a waiter + 1) or `grants` (a set of waiters). */
inline plan(s) {
  next = left & ~QUEUED;
  if
  /* mutant: I4-designates-twice */
  :: designated[s] != 0 -> skip
  :: else ->
     passOverIneligible(s);
     if
     :: Q(s, at) != 0 && shared[waiterAt(s, at)] && !isExclusive(left) -> planJoint(s)
     :: Q(s, at) != 0 && !shared[waiterAt(s, at)] && isFree(left) -> planAlone(s)
     :: Q(s, at) != 0 && (isExclusive(left) || (!shared[waiterAt(s, at)] && !isFree(left))) ->
        next = next | QUEUED
     :: Q(s, at) == 0 -> skip
     fi
  fi;
  at = 0
}

inline planJoint(s) {
  do
  :: Q(s, at) != 0 && shared[waiterAt(s, at)] ->
     atomic {
       grants = grants | bit(waiterAt(s, at));
       n++;
       at++
     };
     passOverIneligible(s)
  :: else -> break
  od;
  noteTurn(true);
  /* mutant: I3-joint-drops-queued */
  next = ((next | SHARED) + n) | (Q(s, at) != 0 -> QUEUED : 0);
  n = 0
}

inline planAlone(s) {
  n = waiterAt(s, at);
  noteTurn(true);
  if
  :: mayBeFair -> assert(mayHandOver)
  :: mayBeUnfair ->
     preferOwn(s);
     toDesignate = (isAsync(n) && ownerOf(n) == actor -> 0 : n + 1)
  fi;
  if
  :: toDesignate == 0 ->
     grants = bit(n);
     next = next | slotOf(ownerOf(n)) | (Q(s, 1) != 0 -> QUEUED : 0)
  :: else -> skip
  fi;
  n = 0
}

#define isOwn(w) (isAsync(w) && ownerOf(w) == actor)

/* Makes `n` the first exclusive async waiter of the releasing thread, if one is in the queue and eligible. */
inline preferOwn(s) {
#if ASYNC
  if
  :: ownerOf(n) == actor -> skip
  :: else ->
     do
     :: Q(s, at) == 0 -> break
     :: Q(s, at) != 0 && isOwn(waiterAt(s, at)) && !shared[waiterAt(s, at)] ->
        passOverIneligible(s);
        if
        :: Q(s, at) != 0 && isOwn(waiterAt(s, at)) && !shared[waiterAt(s, at)] ->
           n = waiterAt(s, at);
           /* mutant: fairness-restarts */
           noteTurn(false);
           break
        :: else -> skip
        fi
     :: else -> at++
     od
  fi
#else
  skip
#endif
}

/* Leaves with the shard locked and the word in `seen`, gives the shard back, and sends the wakes. Clears `ok`. */
inline leaveLocked(s, how, isSharedHold, holds) {
  do
  :: DECIDE_AND_EXCHANGE {
       DECIDE {
         afterLeaving(how, isSharedHold, holds);
         plan(s)
       };
       atomic {
         if
         :: word[s] == seen ->
            word[s] = next;
            dirty[s] = dirty[s] || (how == DIE && !isSharedHold);
            carryOutQueue(s);
            win();
            break
         :: else ->
            seen = word[s];
            left = 0;
            next = 0;
            grants = 0;
            toDesignate = 0;
            noteTurn(false);
            lose()
         fi
       }
     }
  od;
  carryOutStates(s);
  sendWakes(how)
}

/* The part of carryOut that only the holder of the shard can see. */
inline carryOutQueue(s) {
  designated[s] = (toDesignate -> toDesignate : designated[s]);
  k = 0;
  do
  :: k == WAITERS -> break
  :: k < WAITERS && (grants & bit(k)) ->
     restartInTurn;
     removeServed(s, k);
     told[k] = told[k] || (next & ABANDONED);
     expected[k] = expected[k] || dirty[s];
     sharesOf(ownerOf(k), s) = sharesOf(ownerOf(k), s) + (shared[k] && !isAsync(k));
     k++
  :: k < WAITERS && !(grants & bit(k)) -> k++
  od;
  k = 0;
  seen = 0;
  left = 0;
  next = 0;
  ok = false;
  noteTurn(false);
  if
  :: grants == 0 && toDesignate == 0 -> unlockShard(s)
  :: else -> skip
  fi
}

/* The part that others see. */
inline carryOutStates(s) {
  do
  :: atomic {
       toDesignate != 0 ->
       n = toDesignate - 1;
       toDesignate = 0;
       state[n] = DESIGNATED;
#if ASYNC
       if
       :: isAsync(n) -> pushReady(n)
       :: else -> wakes = wakes | bit(n)
       fi;
#else
       wakes = wakes | bit(n);
#endif
       n = 0;
       unlockShard(s)
     }
  :: grants != 0 -> grantNext(s)
  :: else -> break
  od
}

/* The first of `grants` continues with its next stripe, or is complete. */
inline grantNext(s) {
#if STRIPES == 1
  atomic {
    firstOf(grants);
    complete(k);
    unlockIfDone(s)
  }
#else
  atomic {
    firstOf(grants);
    n = position(k) + 1;
    takeNext()
  };
  do
  :: n > high(k) || !ok -> break
  :: else -> takeNext()
  od;
  if
  :: !ok -> proceedLocked(s)
  :: else -> skip
  fi;
  atomic {
    if
    :: ok -> complete(k)
    :: else -> skip
    fi;
    if
    :: beyond != 0 -> shard[beyond - 1] = false; beyond = 0
    :: else -> skip
    fi;
    n = 0;
    unlockIfDone(s)
  }
#endif
}

/* For waiter `k`: stripe `n`, if the waiter wants it. */
inline takeNext() {
  d_step {
    ok = true;
    if
    :: n <= high(k) -> tryTake(n, k); n = n + ok
    :: else -> skip
    fi
  }
}

/* Takes the lowest bit out of a set, into `k`. */
inline firstOf(set) {
  d_step {
    do
    :: !(set & bit(k)) -> k++
    :: else -> break
    od;
    set = set & ~bit(k)
  }
}

inline unlockIfDone(s) {
  k = 0;
  ok = false;
  if
  :: grants == 0 -> unlockShard(s)
  :: else -> skip
  fi
}

/* Table::proceed from stripe `n` on, for waiter `k` that is granted stripe `s` by another one: both shards are held while
 * it moves, that which is `beyond` if it is another. */
inline proceedLocked(s) {
  do
  :: ok && n > high(k) -> break
  :: ok && n <= high(k) -> takeNext()
  :: !ok ->
     atomic {
       if
       :: shardOf(n) != shardOf(s) && beyond != shardOf(n) + 1 ->
          lockShard(n);
          setPosition(k, n);
          beyond = shardOf(n) + 1
       :: else -> setPosition(k, n)
       fi;
       seen = word[n]
     };
     takeOrLink(n, k);
     if
     :: ok -> n++
     :: else -> break
     fi
  od
}

inline complete(w) {
  assert(isLinked(w));                                                            /* I5 */
  state[w] = GRANTED;
#if ASYNC
  if
  :: isAsync(w) ->
     undelivered[ownerOf(w)]++;
     pushReady(w)
  :: else -> wakes = wakes | bit(w)
  fi
#else
  wakes = wakes | bit(w)
#endif
}

/* ── Waking ── */

#if ASYNC
/* Participant::pushReady and pushGranted. The list has a separate mutex, so this is a part of a step. */
inline pushReady(w) {
  assert(!(ready[ownerOf(w)] & bit(w)));
  ready[ownerOf(w)] = ready[ownerOf(w)] | bit(w);
  readies = readies | bit(ownerOf(w))
}

/* Participant::wakeReady */
inline wakeReady(how) {
  atomic {
    firstOf(readies);
    /* Membership::release leaves out grants to its own thread: its caller looks for them. */
    goOn = !(how == RELEASE && k == t)
  };
  if
  :: goOn ->
     if
     :: blocked[k] -> permit[k] = true
     :: else -> skip
     fi;
     atomic {
       goOn = !waking[k];
       waking[k] = true
     };
     if
     :: goOn -> loopWake[k] = loopWake[k] || looping[k]
     :: else -> skip
     fi
  :: else -> skip
  fi;
  goOn = false;
  k = 0
}
#endif

/* WakeSet::send */
inline sendWakes(how) {
  do
  :: wakes != 0 ->
     atomic {
       firstOf(wakes);
       permit[k] = true;
       k = 0
     }
#if ASYNC
  :: wakes == 0 && readies != 0 -> wakeReady(how)
#endif
  :: else -> break
  od
}

/* ── What is made of these ── */

/* Table::leave */
inline leave(s, how, isSharedHold, holds) {
  atomic { lockShard(s); seen = word[s] };
  leaveLocked(s, how, isSharedHold, holds)
}

/* Gives back the stripes of a request up to, but without, `end`: last first. Only then are they counted off, of what a
 * sync waiter holds (SyncWait::failed). */
inline rollBack(who, end) {
  p = end;
  do
  :: p > low(who) ->
     p--;
     leave(p, ROLL_BACK, shared[who], 1)
  :: else -> break
  od;
  atomic {
    do
    :: p < end -> sharesOf(t, p) = sharesOf(t, p) - (shared[who] && !isAsync(who)); p++
    :: else -> break
    od;
    p = 0
  }
}

/* Table::lockFor: leaves in `p` the stripe whose shard it locked. With one stripe there is nothing to find out, and
 * taking the mutex joins the next step. */
#if STRIPES == 1
inline lockFor(who) { skip }
inline join(s) { lockShard(s) }
#else
inline lockFor(who) {
  do
  :: p = position(who);
     atomic {
       lockShard(p);
       if
       /* mutant: I5-looks-once */
       :: position(who) == p -> break
       :: else -> unlockShard(p)
       fi
     }
  od
}
inline join(s) { skip }
#endif

/* Sets `done` to whether it had not been granted. */
inline withdraw(who) {
  lockFor(who);
  atomic {
    join(p);
    /* mutant: I5-withdraws-granted */
    done = (state[who] != GRANTED);
    if
    :: done ->
       assert(isLinked(who));                                                     /* I5 */
       removeFrom(p, who);
       designated[p] = (designated[p] == who + 1 -> 0 : designated[p]);
       state[who] = WITHDRAWN;
       seen = word[p]
    :: else -> unlockShard(p)
    fi
  };
  if
  /* mutant: I4-passes-no-turn-on */
  :: done -> leaveLocked(p, STAY, false, 0)
  :: else -> skip
  fi;
  p = 0
}

/* A designated waiter tries, sets QUEUED and sleeps again, or is unlinked. Sets `done` to whether it was served.
 * Table::serveDesignated, retryDesignated and unlinkServed, with the attempts to spin made one at any moment. */
inline tryDesignated(who) {
  atomic { p = position(who); done = false; tryTake(p, who) };
  if
  :: ok -> AWAIT_SHARD atomic { lockShard(p); unlinkServed(p, who) }
  :: else -> retryDesignated(p, who)
  fi;
  if
  :: ok ->
     leaveLocked(p, STAY, false, 0);
     done = true
  :: else -> skip
  fi;
  p = 0
}

/* Sets `ok` to whether it took the stripe: then it has the shard still. */
inline retryDesignated(s, who) {
  AWAIT_SHARD
  atomic { lockShard(s); tryTake(s, who) };
  do
  :: ok -> atomic { unlinkServed(s, who); break }
  :: else ->
     seen = word[s];
     atomic {
       if
       /* mutant: I2-queues-unseen */
       :: !isFree(seen) && word[s] == seen ->
          word[s] = seen | QUEUED;
          designated[s] = 0;
          state[who] = WAITING;
          seen = 0;
          win();
          unlockShard(s);
          break
       :: else -> seen = 0; lose()
       fi
     };
     tryTake(s, who)
  od
}

inline unlinkServed(s, who) {
  removeServed(s, who);
  designated[s] = 0;
  restartClock;
  win();
  state[who] = TAKING;
  seen = word[s]
}

#if ASYNC
/* Whether a waiter can be overtaken. A thread that finds none changes nothing and keeps sleeping; if it sleeps forever,
 * that is a dead end. */
#define mayOvertake(w) (isAsync(designated[position(w)] - 1) && mayShareOrFree(word[position(w)], w))
#define mayShareOrFree(x, w) (isFree(x) || (shared[w] && isShared(x) && !((x) & QUEUED)))

/* Sets `done` to whether it took its stripe in front of a designated async waiter. */
inline overtakeDesignated(who) {
  lockFor(who);
  atomic {
    join(p);
    done = state[who] == WAITING && designated[p] != 0 && isAsync(designated[p] - 1);
    if
    :: done -> tryTake(p, who); done = ok; ok = false
    :: else -> skip
    fi;
    if
    /* mutant: I5-overtakes-and-stays */
    :: done -> removeFrom(p, who); state[who] = TAKING
    :: else -> skip
    fi;
    unlockShard(p);
    p = 0
  }
}
#endif

#if ASYNC
/* AsyncWaits::putBack. Its place by arrival time depends on the clock: here, either end. It touches only the queue, and
 * state that only a blocked thread itself reads and writes: one step. */
inline requeue(who) {
  atomic {
    lockShard(low(who));
    relink(who);
    passedOver[t] = true;
    unlockShard(low(who))
  }
}

inline relink(who) {
  setPosition(who, low(who));
  told[who] = false;
  expected[who] = false;
  state[who] = WAITING;
  if
  :: Q(low(who), 0) == 0 -> restartClock
  :: else -> skip
  fi;
  if
  :: pushFront(low(who), who)
  :: pushBack(low(who), who)
  fi
}
#endif
