/* Acquisitions that wait without blocking their thread (async_waits.cc, participant.cc, lib/engine/native). */

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
       enter(own);
       holdsAsync = true
    :: else -> pending = true
    fi
  }
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

/* popReady(): says in `done` whether there is a waiter. */
inline popReady() {
  waking[t] = false;
  d_step {
    dropped[t] = false;
    done = ready[t];
    ready[t] = false
  }
}

/* take(), with what #settleReady makes of it. */
inline settleReady() {
  do
  :: popReady();
     if
     :: !done -> break
     :: done && state[own] == GRANTED ->
        undelivered[t]--;
        done = false;
        deliver()
     :: done && state[own] != GRANTED ->
        tryDesignated(own);
        if
        :: done ->
           done = false;
#if STRIPES == 2
           p = position(own) + 1;
           proceedOwn(own);
           if
           :: ok -> ok = false; deliver()
           :: else -> skip
           fi
#else
           deliver()
#endif
        :: else -> skip
        fi
     fi
  od
}

inline deliver() {
  atomic {
    countOwn(high(own) + 1, 1);
    pending = false;
    holdsAsync = true;
    enter(own);
    break
  }
}

/* What cancel(), expire(), close(), putOff() and giveBack() have in common: takes the waiter out of its queue, and
 * gives back what it had taken; or, where it was granted and `evenGranted`, all. Says in `done` whether it did. */
inline undo() {
  withdraw(own);
  if
  :: done -> rollBack(own, position(own))
  :: !done && evenGranted ->
     rollBack(own, high(own) + 1);
     /* Only now: until then the words name this thread for what it does not really hold. */
     undelivered[t]--;
     done = true
  :: else -> skip
  fi;
  evenGranted = false
}

/* drop(), expire() */
inline giveUpOwn() {
  undo();
  atomic {
    if
    :: done ->
       dropped[t] = dropped[t] || ready[t];
       ready[t] = false;
       pending = false;
       forgetRequest(own)
    :: else -> skip
    fi;
    done = false
  }
}

/* reclaim(): what is ready, then what holds a part, then again what is ready. */
inline reclaim() {
  do
  :: popReady();
     evenGranted = done;
#if STRIPES == 2
     if
     :: !done && !looked && pending && low(own) < high(own) ->
        lockFor(own);
        atomic {
          done = state[own] == WAITING && position(own) != low(own);
          unlockShard(p);
          p = 0;
          looked = true
        };
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
  looked = false
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
  lockFor(own);
  atomic {
    join(p);
    goOn = (state[own] == WAITING);
    if
    :: goOn -> seen = word[p]
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

/* SyncWait::waitsForItself, for the stripes from `p` on: `reclaiming` says that it is to be asked again. */
inline holdsForGood() {
  i = p;
  do
  :: i > high(t) || t >= ASYNC -> break
  :: i <= high(t) && t < ASYNC ->
     if
     :: heldBy(word[i], t) ->
        atomic {
          lockShard(i);
          reclaiming = (undelivered[t] != 0);
          assert(reclaiming || !heldBy(word[i], t));                              /* no false DeadlockError */
          unlockShard(i)
        };
        if
        :: reclaiming -> break
        :: else -> skip
        fi
     :: else -> skip
     fi;
     i++
  od;
  i = 0
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
inline holdsForGood() { skip }
inline settleSoon() { skip }

#endif
