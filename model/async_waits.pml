/* Acquisitions that wait without blocking their thread (async_waits.cc, async_returns.cc, participant.cc, lib/engine/native). */

#if ASYNC

/* ── AsyncWaits ── */

/* start(), after the fast path came as far as `p`. */
inline startSlow() {
  countOwn(p, -1);
  proceedOwn(own);
  atomic {
    if
    :: ok ->
       ok = false;
       countOwn(high(own) + 1, 1);
       UNRANK(own)
       enter(own);
       hold(own)
    :: else ->
       pending = pending | bit(own);
       UNRANK_TAKEN
    fi
  }
}

/* start() with no time to wait. */
inline giveBackOwn() {
  countOwn(p, -1);
  from = p;
  rollBack(own, from);
  from = 0;
  forgetRequest(own)
}

/* Membership::countShares for the stripes up to, but without, `end`. */
inline countOwn(end, by) {
  d_step {
    i = low(own);
    do
    :: i < end -> sharesOf(t, i) = sharesOf(t, i) + (shared[own] -> by : 0); i++
    :: else -> break
    od;
    i = 0
  }
}

/* popReady(): sets `done` to whether there is a waiter, and which in `own`. */
#if EACH == 1
#define POP
inline popReady() { takeReady() }
inline takeReady() {
  waking[t] = false;
  d_step {
    COME
    dropped[t] = false;
    done = (ready[t] != 0);
    ready[t] = 0
  }
}
#else
#define POP pop();
inline popReady() { takeReady(); pop() }
inline takeReady() {
  if
  :: chain == 0 ->
     waking[t] = false;
     d_step {
       COME
       dropped[t] = false;
       chain = ready[t];
       ready[t] = 0
     }
  :: else -> skip
  fi
}
#endif

#if EACH > 1
inline pop() {
  atomic {
    done = (chain != 0);
    if
    :: done ->
       pick(chain);
       chain = chain & ~bit(own)
    :: else -> skip
    fi
  }
}
#endif

/* Sets `own` to one of a set of the thread's waiters, in any order. */
inline pick(set) {
#if EACH == 1
  skip
#else
  if
  :: (set) & bit(firstOwn) -> own = firstOwn
  :: (set) & bit(firstOwn + 1) -> own = firstOwn + 1
  fi
#endif
}

/* take(), with what #settleReady makes of it. */
inline settleReady() {
  do
  :: takeReady();
#ifdef REVOKE
     comeBack();
#endif
     POP
     if
     :: !done -> break
     :: done && state[own] == GRANTED ->
        assert(undelivered[t] > 0);
        undelivered[t]--;
        CHANGED
        done = false;
        deliver();
        break
     :: done && state[own] != GRANTED ->
        tryDesignated(own);
        if
        :: done ->
           done = false;
#if STRIPES > 1
           p = position(own) + 1;
           proceedOwn(own);
           if
           :: ok -> ok = false; deliver(); break
           :: else -> skip
           fi
#else
           deliver();
           break
#endif
        :: else -> skip
        fi
     fi
  od
}

inline deliver() {
  STAND_IN_GRANTED
  atomic {
    countOwn(high(own) + 1, 1);
    IN_ORDER(ranks[own - firstOwn])
    UNRANK(own)
    assert(pending & bit(own));                                                   /* I5 */
    pending = pending & ~bit(own);
    hold(own);
    enter(own);
    state[own] = WAITING;
    settling = settling || hasReady(t)
  }
}

/* The common part of cancel(), expire(), close(), putOff() and giveBack(): takes the waiter out of its queue, and gives
 * back the stripes that it had taken; or all, if it was granted and `evenGranted`. Sets `done` to whether it did. */
inline undo() {
  withdraw(own);
  if
  :: done -> rollBack(own, position(own))
  :: !done && evenGranted ->
     /* mutant: cancelled-keeps-grant */
     rollBack(own, high(own) + 1);
     /* Only now: until then the words name this thread for what it does not really hold. */
     undelivered[t]--;
     CHANGED
     done = true
  :: else -> skip
  fi;
  evenGranted = false
}

/* drop(), expire() */
inline giveUpOwn() {
  LOCK_OWN
  undo();
  atomic {
    if
    :: done ->
       dropped[t] = dropped[t] || (ready[t] & bit(own));
       ready[t] = ready[t] & ~bit(own);
       FORGET_CHAIN
       pending = pending & ~bit(own);
       forgetRequest(own)
    :: else -> skip
    fi;
    done = false
  };
  UNLOCK_OWN
}

/* reclaim(): what is ready, then what holds a part, then again what is ready. */
inline reclaim() {
  LOCK_OWN
  do
  :: popReady();
     evenGranted = done;
#if STRIPES > 1
     if
     :: !done && (pending & ~looked) ->
        atomic { pick(pending & ~looked); looked = looked | bit(own) };
        if
        /* mutant: I6-keeps-a-part */
        :: low(own) < high(own) ->
           lockFor(own);
           atomic {
             done = state[own] == WAITING && position(own) != low(own);
             unlockShard(p);
             p = 0
           }
        :: else -> skip
        fi
     :: done -> skip
     :: else -> break
     fi;
#else
     if
     :: done -> skip
     :: else -> break
     fi;
#endif
     if
     :: done -> putOff()
     :: else -> skip
     fi
  od;
  UNLOCK_OWN
  looked = 0
}

/* putOff(), giveBack(), requeue() */
inline putOff() {
  undo();
  if
  :: done ->
     requeue(own);
     done = false
  :: else -> skip
  fi
}

/* resettle() */
inline resettle() {
  LOCK_OWN
#if EACH == 1
  resettleOwn();
#else
  own = firstOwn;
  do
  :: own == firstOwn + EACH -> break
  :: own < firstOwn + EACH ->
     if
     :: pending & bit(own) -> resettleOwn()
     :: else -> skip
     fi;
     own++
  od;
  own = firstOwn;
#endif
  UNLOCK_OWN
}

inline resettleOwn() {
  lockFor(own);
  atomic {
    join(p);
    goOn = (state[own] == WAITING);
    if
    :: goOn -> assert(position(own) == p); seen = word[p]
    :: else -> unlockShard(p)
    fi
  };
  if
  :: goOn -> leaveLocked(p, STAY, false, 0)
  :: else -> skip
  fi;
  goOn = false;
  p = 0
}

/* ── Participant ── */

/* block(); waitForGrant reclaims. */
inline block() {
  if
  :: t < ASYNC ->
     atomic {
       blocked[t] = true;
       inSyncWait[t] = true;
       reclaiming = true
     }
  :: else -> skip
  fi
}

/* SyncWait::waitsForItself, for the stripes from `p` on: sets `refused` to whether. `reclaiming` says that it is to be
 * asked again. */
inline waitsForItself() {
  i = p;
  do
  :: i > high(t) || t >= ASYNC -> break
  :: i <= high(t) && t < ASYNC ->
     if
     :: heldBy(word[i], t) ->
        atomic {
          lockShard(i);
          /* mutant: graph-own-undelivered */
          reclaiming = (undelivered[t] != 0);
          /* mutant: graph-waits-for-itself */
          refused = !reclaiming && heldBy(word[i], t);
          unlockShard(i)
        }
#if NESTS
     :: !heldBy(word[i], t) && sharesOf(t, i) > 0 ->
        atomic {
          lockShard(i);
          do
          :: Q(i, at) != 0 && shared[waiterAt(i, at)] -> at++
          :: else -> break
          od;
          refused = !shared[t] || Q(i, at) != 0;
          at = 0;
          unlockShard(i)
        }
     :: else -> skip
#else
     :: else -> skip
#endif
     fi;
     if
     :: refused || reclaiming -> break
     :: else -> i++
     fi
  od;
  atomic {
    assert(!refused || guardsOf(t, i) > 0);                                     /* no false DeadlockError */
    i = 0
  }
}

/* unblock() */
inline unblock() {
  if
  :: t < ASYNC ->
     blocked[t] = false;
     atomic {
       goOn = passedOver[t] && pending;
       passedOver[t] = false
     };
     if
     :: goOn -> resettle()
     :: else -> skip
     fi;
     inSyncWait[t] = false
  :: else -> skip
  fi
}

/* NativeEngine: a microtask follows, which settles what its own release granted. */
inline settleSoon() {
  settling = settling || (t < ASYNC && hasReady(t))
}

#else

inline block() { skip }
inline unblock() { skip }
inline reclaim() { skip }
inline waitsForItself() { skip }
inline settleSoon() { skip }

#endif
